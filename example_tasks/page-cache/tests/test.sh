#!/bin/sh
# Reward 1 for the right answer, else 0.
reward=0
if [ "$(cat /app/answer.txt 2>/dev/null)" = "2823170080" ]; then
    reward=1
fi
echo "$reward" >/logs/verifier/reward.txt
