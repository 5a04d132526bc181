#include <stdio.h>
#include <stdlib.h>
#include "square.h"

int main(int argc, char **argv) {
    printf("%d\n", square(argc > 1 ? atoi(argv[1]) : 0));
    return 0;
}
