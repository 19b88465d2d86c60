"""Output of the commands: formats, files, standard streams and terminals."""
