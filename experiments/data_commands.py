def add_data_parser(commands): pass
