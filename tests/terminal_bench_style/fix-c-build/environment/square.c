#include "square.h"

int square(int number) { return number * number; }
