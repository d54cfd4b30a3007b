"""Work on files: a folder of the server's disk that a configuration names, and all that keeps tools inside it."""
