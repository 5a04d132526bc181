#!/bin/bash
set -euo pipefail

/usr/bin/python3 - <<'PY'
primes = []
number = 2
while len(primes) < 1000:
    if all(number % prime for prime in primes):
        primes.append(number)
    number += 1
with open("/app/primes.txt", "w") as file:
    file.writelines(f"{prime}\n" for prime in primes)
with open("/logs/artifacts/digits.txt", "w") as file:
    file.write(f"{sum(len(str(prime)) for prime in primes)}\n")
PY
