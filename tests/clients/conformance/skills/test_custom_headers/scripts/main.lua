return input
