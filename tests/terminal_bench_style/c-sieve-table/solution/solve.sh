#!/bin/bash
set -euo pipefail

cat >/app/sieve.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 40000000 };

int main(void) {
    /* An int per number: simple, and 160 MB. */
    int *composite = malloc(sizeof(int) * LIMIT);
    long count = 0;
    if (!composite) return 1;
    memset(composite, 0, sizeof(int) * LIMIT);
    for (long i = 2; i < LIMIT; i++) {
        if (composite[i]) continue;
        count++;
        for (long j = i * i; j < LIMIT; j += i) composite[j] = 1;
    }
    printf("%ld\n", count);
    return 0;
}
C
gcc -O2 -o /app/sieve /app/sieve.c
/app/sieve >/app/count.txt
