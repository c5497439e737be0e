package app

import "context"

// FirstSteps is what somebody has to know who starts a server for the first time.
type FirstSteps struct {
	SetupCode string // needed to open the first account; empty if there is an account
	// LockedOut is the name of the first person, if there are people and none has a password; empty
	// otherwise.
	LockedOut string
	FirstBot  string // name of bot 1, or its number
}

// FirstSteps returns what is known. What cannot be read is left out.
func (b *Base) FirstSteps(ctx context.Context) (f FirstSteps) {
	f.SetupCode, _ = b.Accounts.SetupCode(ctx) //nolint:errcheck // see above
	if people, err := b.Store.People.All(ctx); err == nil && len(people) > 0 {
		f.LockedOut = people[0].Name
		for _, p := range people {
			if p.Password != "" {
				f.LockedOut = ""
			}
		}
	}
	f.FirstBot = "1"
	if bot, err := b.Store.Bots.ByNumber(ctx, 1); err == nil { // an earlier start may have named it
		f.FirstBot = bot.Name
	}
	return f
}
