package control

import (
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

const (
	msgKeyOutlives = i18n.Message("This key expires at %s, and a key that it makes cannot expire later.")
	msgRatedKey    = i18n.Message("This key has a rate of its own, or keeps its arguments, so it may not make or change keys. Use a key without rules, or the console.")
	msgEndingKey   = i18n.Message("This key expires, so it may not open accounts or set passwords, which do not. Use a key that does not expire, or the console.")
)

const msgNarrowKey = i18n.Message("This key is for one bot, for some tools, or waits for approvals, so it may not change what bots, devices, keys and tools may do. Use a key without rules, or the console.")

// requireUnrestrictedKey refuses keys that have fewer rights than their owner: through the change,
// they would get more. Every operation that can extend somebody's rights calls it.
func requireUnrestrictedKey(c Caller) error {
	if c.Key != "" && (c.Only != 0 || hub.AreNarrow(c.Rules)) {
		return problem.New(problem.Denied, msgNarrowKey)
	}
	return nil
}

// requireUnrestrictedAdmin is admin for operations that can give rights beyond those of the
// caller's key.
func requireUnrestrictedAdmin(c Caller) error {
	if err := admin(c); err != nil {
		return err
	}
	return requireUnrestrictedKey(c)
}

// checkMakesKeys refuses keys that may not decide about other keys: narrow ones, and those whose
// rules would not apply to what they create.
func checkMakesKeys(c Caller) error {
	if err := requireUnrestrictedKey(c); err != nil || c.Key == "" {
		return err
	}
	if r, err := hub.ParseRules(c.Rules); err != nil || r.PerMinute > 0 || r.KeepArgs {
		return problem.New(problem.Denied, msgRatedKey)
	}
	return nil
}

// checkLifetime refuses to let expiring keys create what outlives them.
func checkLifetime(c Caller) error {
	if !c.Ends.IsZero() {
		return problem.New(problem.Denied, msgEndingKey)
	}
	return nil
}

// inherit makes a key end with the key that created it.
func inherit(c Caller, want *account.NewKey) error {
	if !c.Ends.IsZero() && want.Expires > 0 && time.Now().Add(want.Expires).After(c.Ends) {
		return problem.New(problem.Denied, msgKeyOutlives, c.Ends.UTC().Format(time.RFC3339))
	}
	want.Parent, want.Latest = c.Key, c.Ends
	return nil
}
