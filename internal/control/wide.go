package control

import (
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/talk"
)

var (
	sayKeyOutlives = talk.Say{
		Zh: "这个密钥 %s 失效，用它创建的密钥不能更晚失效。",
		En: "This key expires at %s, and a key that it makes cannot expire later.",
	}
	sayRatedKey = talk.Say{
		Zh: "这个密钥限定了调用频率或要保留参数，所以不能创建和更改密钥。请用没有规则的密钥，或在网页上操作。",
		En: "This key has a rate of its own, or keeps its arguments, so it may not make or change keys. Use a key without rules, or the console.",
	}
	sayEndingKey = talk.Say{
		Zh: "这个密钥会失效，所以不能开设账户和设置密码：那些不会失效。请用长期有效的密钥，或在网页上操作。",
		En: "This key expires, so it may not open accounts or set passwords, which do not. Use a key that does not expire, or the console.",
	}
)

var sayNarrowKey = talk.Say{
	Zh: "这个密钥只能用于一个机器人或一部分工具，所以不能更改机器人、设备、密钥和工具的权限。请用没有规则的密钥，或在网页上操作。",
	En: "This key is for one bot, or for some tools, so it may not change what bots, devices, keys and tools may do. Use a key without rules, or the console.",
}

// requireUnrestrictedKey refuses keys that are for less than all that their person has: by what
// they change, they would have more. Every operation that can widen the rights of somebody asks it.
func requireUnrestrictedKey(c Caller) error {
	if c.Key != "" && (c.Only != 0 || hub.AreNarrow(c.Rules)) {
		return Fail(Refused, sayNarrowKey)
	}
	return nil
}

// requireUnrestrictedAdmin is admin for what can give somebody more rights than the caller's own
// key has.
func requireUnrestrictedAdmin(c Caller) error {
	if err := admin(c); err != nil {
		return err
	}
	return requireUnrestrictedKey(c)
}

// checkMakesKeys refuses keys that may not decide what other keys do: neither those that are
// narrow, nor those whose other rules would not hold for what they make.
func checkMakesKeys(c Caller) error {
	if err := requireUnrestrictedKey(c); err != nil || c.Key == "" {
		return err
	}
	if r, err := hub.ParseRules(c.Rules); err != nil || r.PerMinute > 0 || r.KeepArgs {
		return Fail(Refused, sayRatedKey)
	}
	return nil
}

// checkLifetime refuses keys that expire what stays when they are gone.
func checkLifetime(c Caller) error {
	if !c.Ends.IsZero() {
		return Fail(Refused, sayEndingKey)
	}
	return nil
}

// inherit has a key that is made by another end with that.
func inherit(c Caller, want *account.NewKey) error {
	if !c.Ends.IsZero() && want.Expires > 0 && time.Now().Add(want.Expires).After(c.Ends) {
		return Fail(Refused, sayKeyOutlives, c.Ends.UTC().Format(time.RFC3339))
	}
	want.Parent, want.Latest = c.Key, c.Ends
	return nil
}
