#!/bin/sh
set -e
python3 /solution/estimate.py >/app/estimate.txt
mv /app/estimate.txt /app/answer.txt
