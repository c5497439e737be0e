package engine

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Use is what an utterance or a speech has used of an engine.
type Use struct {
	Engine     string        // its name
	Heard      time.Duration // sound that it got
	Characters int           // of the texts that it got
	// Cost is what it costs, in millionths of the currency in which prices are given.
	Cost int64
}

// Price is what an engine costs; 0: nothing. Settings of whatever hears and speaks embed it.
type Price struct {
	Minute            float64 `json:"price_per_minute,omitempty"`             // of sound that it hears
	MillionCharacters float64 `json:"price_per_million_characters,omitempty"` // that it speaks
}

// The highest prices keep sums below what a number of 64 bits can be.
const (
	maxPricePerMinute  = 1_000
	maxPricePerMillion = 100_000
)

const msgPrice = i18n.Message("%s is %v; choose 0 to %v, or leave it out")

// PriceTexts are what people are told of the settings of a [Price].
var PriceTexts = map[string]settings.FieldText{
	"price_per_minute": {Label: i18n.Message("Price of a minute that it hears"),
		Hint: i18n.Message("In the currency of speech.currency, for the sums under Usage"), Example: "0.003"},
	"price_per_million_characters": {Label: i18n.Message("Price of a million characters that it speaks"),
		Hint: i18n.Message("In the currency of speech.currency, for the sums under Usage"), Example: "15"},
}

// Validate returns an error that says what is invalid.
func (p Price) Validate() error {
	return errors.Join(checkPrice("price_per_minute", p.Minute, maxPricePerMinute),
		checkPrice("price_per_million_characters", p.MillionCharacters, maxPricePerMillion))
}

func checkPrice(name string, price, most float64) error {
	if !(price >= 0 && price <= most) {
		return msgPrice.Errorf(name, price, most)
	}
	return nil
}

// Of returns the cost of a use.
func (p Price) Of(u Use) int64 {
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

// Used has the account note what something else than an engine has used.
func (c *Chain) Used(u Use) {
	if c.Account != nil {
		c.Account.Used(u)
	}
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
	u.Engine, u.Cost = l.Name, l.Price.Of(u)
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
