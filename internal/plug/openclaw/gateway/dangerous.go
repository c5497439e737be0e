package gateway

// Dangerous says whether a command is one that models and programs get only if the
// node's owner asks for it by name: it looks, listens, changes or runs things.
func Dangerous(command string) bool {
	t := commandTool(command)
	return t.Dangerous
}
