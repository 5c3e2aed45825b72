"""What was published (numbers, hyperparameters), and how each table and figure is made again."""
