package control

import (
	"patchbay/internal/board"
	"patchbay/internal/talk"
)

var sayNarrowKey = talk.Say{
	Zh: "这个密钥只能用于一个机器人或一部分工具，所以不能更改机器人、设备、密钥和工具的权限。请用没有规则的密钥，或在网页上操作。",
	En: "This key is for one bot, or for some tools, so it may not change what bots, devices, keys and tools may do. Use a key without rules, or the console.",
}

// wide refuses keys that are for less than all that their person has: by what they change,
// they would have more. Every operation that can widen the rights of somebody asks it.
func wide(c Caller) error {
	if c.Key != "" && (c.Only != 0 || board.IsNarrow(c.Rules)) {
		return Fail(Refused, sayNarrowKey)
	}
	return nil
}

// adminWide is admin for what can give somebody more rights than the caller's own key has.
func adminWide(c Caller) error {
	if err := admin(c); err != nil {
		return err
	}
	return wide(c)
}
