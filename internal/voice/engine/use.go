package engine

import (
	"context"
	"time"
)

// Use is what an utterance or a speech has used of an engine.
type Use struct {
	Engine     string        // its name
	Heard      time.Duration // sound that it got
	Characters int           // of the texts that it got
	// Cost is what it costs, in millionths of the currency in which prices are given.
	Cost int64
}

// Price is what an engine costs; 0: nothing.
type Price struct {
	Minute            float64 // of sound that it hears
	MillionCharacters float64 // that it speaks
}

// of returns the cost of a use.
func (p Price) of(u Use) int64 {
	return int64(u.Heard.Minutes()*p.Minute*1e6 + float64(u.Characters)*p.MillionCharacters + 0.5)
}

// Account is for whom a [Chain] uses its engines. It is safe for concurrent use.
type Account interface {
	// Refusal returns an error of class [Spent] if nothing more may be heard or said, or nil.
	Refusal(ctx context.Context) *Error
	// Used notes a use that is over.
	Used(Use)
}

// Refusal returns an error of class [Spent] if the account of the chain allows no more, or nil.
func (c *Chain) Refusal(ctx context.Context) *Error {
	if c.Account == nil {
		return nil
	}
	return c.Account.Refusal(ctx)
}

// metered is an [Utterance] or [Speech] that knows what its engine got, or what that bills if it
// tells. It is asked after Close.
type metered interface{ used() Use }

// usedOf returns what an utterance or a speech has used.
func usedOf(of any) (u Use) {
	if m, ok := of.(metered); ok {
		u = m.used()
	}
	return u
}

// settle has the account note a closed utterance or speech of an engine.
func (c *Chain) settle(l *Link, of any) {
	u := usedOf(of)
	if c.Account == nil || u == (Use{}) {
		return
	}
	u.Engine, u.Cost = l.Name, l.Price.of(u)
	c.Account.Used(u)
}

// mayBill reports whether an engine may bill a request that failed: unlike one that it refused, it
// may have worked on it when somebody stopped waiting.
func mayBill(err error) bool {
	e := AsError(err)
	return e == nil || e.Class == Timeout
}

// MaxBilled limits what an engine can bill for an utterance, and maxBilledFactor for a text, as a
// multiple of its characters. Who says more is not believed: nobody's limit is used up by a wrong
// number.
const (
	MaxBilled       = MaxUtterance
	maxBilledFactor = 4
)

// heardOf returns the use of an engine that got some sound, and says what it bills.
func heardOf(got, billed time.Duration) Use {
	if billed > 0 && billed <= MaxBilled {
		got = billed
	}
	return Use{Heard: got}
}

// spokenOf returns the use of an engine that got some characters, and says what it bills.
func spokenOf(got, billed int) Use {
	if billed > 0 && billed <= maxBilledFactor*got {
		got = billed
	}
	return Use{Characters: got}
}

// lengthOf returns the duration of a number of samples at [Rate].
func lengthOf(samples int) time.Duration { return time.Duration(samples) * time.Second / Rate }
