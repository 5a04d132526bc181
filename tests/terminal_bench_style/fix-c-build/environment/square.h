int sqare(int number);
