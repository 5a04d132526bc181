#!/bin/sh
set -e
python3 /solution/median.py >/app/found.txt
mv /app/found.txt /app/answer.txt
