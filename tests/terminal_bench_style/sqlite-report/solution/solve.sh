#!/bin/bash
set -euo pipefail

sqlite3 /app/shop.db </app/shop.sql
sqlite3 /app/shop.db 'SELECT name FROM customer JOIN bill USING (customer)
    GROUP BY customer ORDER BY SUM(amount) DESC LIMIT 3' >/app/top.txt
