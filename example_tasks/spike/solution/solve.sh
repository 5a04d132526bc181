#!/bin/sh
set -e
python3 /app/render.py >/app/rendered.txt
mv /app/rendered.txt /app/answer.txt
