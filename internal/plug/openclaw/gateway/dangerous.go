package gateway

// IsDangerous reports whether a command is available to models and programs only if the node's
// owner allows it by name: it observes, changes or runs something.
func IsDangerous(command string) bool {
	t := commandTool(command)
	return t.Dangerous
}
