#!/bin/sh
# Wrong on purpose: lines, not words.
python3 -c 'print(len(open("/app/text.txt").read().splitlines()))' >/app/answer.txt
