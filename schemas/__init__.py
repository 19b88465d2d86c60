"""The built-in schemas and the registry of information elements: data, shipped inside the package."""
