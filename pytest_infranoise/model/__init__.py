"""The vocabulary of a study: plain frozen data that every other layer shares."""
