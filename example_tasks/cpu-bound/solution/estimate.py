"""Estimate pi by a series for a fixed amount of CPU time, on a slow machine as on a fast one."""

import time

CPU_SECONDS = 1.1
TERMS_PER_ROUND = 1_000


def main() -> None:
    start = time.process_time()
    total, term = 0.0, 0
    while time.process_time() - start < CPU_SECONDS:
        for _ in range(TERMS_PER_ROUND):
            total += 2.0 / ((4 * term + 1) * (4 * term + 3))
            term += 1
    print(f"{4 * total:.3f}")


if __name__ == "__main__":
    main()
