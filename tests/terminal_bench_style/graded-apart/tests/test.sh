#!/bin/bash

if [ "$PWD" = "/" ]; then
    echo "Error: no working directory is set"
    exit 1
fi

/usr/bin/python3 -m pytest -p no:cacheprovider /tests/test_outputs.py -rA

if [ $? -eq 0 ]; then
    echo 1 >/logs/verifier/reward.txt
else
    echo 0 >/logs/verifier/reward.txt
fi
