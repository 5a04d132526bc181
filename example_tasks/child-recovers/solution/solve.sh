#!/bin/sh
if ! python3 /solution/checksum.py whole >/app/answer.txt; then
    echo "the first attempt ended early, trying again block by block"
    python3 /solution/checksum.py blocks >/app/answer.txt
fi
