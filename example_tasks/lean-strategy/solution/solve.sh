#!/bin/sh
set -e
python3 /solution/count.py >/app/counted.txt
mv /app/counted.txt /app/answer.txt
