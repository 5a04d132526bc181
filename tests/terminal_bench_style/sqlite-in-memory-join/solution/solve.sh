#!/bin/bash
set -euo pipefail

sqlite3 :memory: >/app/pairs.txt <<'SQL'
CREATE TABLE item (number INTEGER PRIMARY KEY, value INTEGER, padding TEXT);
WITH RECURSIVE counter(number) AS (
    SELECT 1 UNION ALL SELECT number + 1 FROM counter WHERE number < 1500000
)
INSERT INTO item SELECT number, number * 7 % 1000003, printf('%080d', number) FROM counter;
CREATE INDEX by_value ON item (value);
SELECT COUNT(*) FROM item AS one JOIN item AS other USING (value) WHERE one.number < other.number;
SQL
