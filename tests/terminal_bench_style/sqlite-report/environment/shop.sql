CREATE TABLE customer (customer INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE bill (customer INTEGER, amount INTEGER);
INSERT INTO customer VALUES (1, 'Anna'), (2, 'Bert'), (3, 'Carl'), (4, 'Dora');
INSERT INTO bill VALUES (1, 40), (1, 30), (2, 10), (3, 60), (4, 99), (4, 1);
