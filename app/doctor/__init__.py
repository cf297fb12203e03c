"""`veristream doctor` and `veristream status`: checks of a deployment and of what it rests on."""
