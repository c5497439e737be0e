package control

import (
	"context"
	"strconv"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	// usageDays and maxUsageDays are how many days are summed up unless the caller says it, and at
	// most.
	usageDays    = 30
	maxUsageDays = 366
)

const msgUsageDays = i18n.Message("days is %d; choose 1 to %d")

// VoiceUsageQuery asks what was used of speech engines.
type VoiceUsageQuery struct {
	Days int `query:"days" json:"-"` // up to today; 0: 30
}

// VoiceUsage is what boards have used of speech engines.
type VoiceUsage struct {
	Since    string `json:"since"`              // the first day
	Currency string `json:"currency,omitempty"` // of the costs
	Total    Usage  `json:"total"`
	// The lists have the same sums by day, newest first, and by person, device and engine, most
	// used first; 1,000 of each at most. Devices that were removed have no name.
	Days    []Usage `json:"days"`
	People  []Usage `json:"people"`
	Devices []Usage `json:"devices"`
	Engines []Usage `json:"engines"`
}

// Usage is a sum of what was used.
type Usage struct {
	ID   string `json:"id,omitempty"`   // of a person, or the number of a device
	Name string `json:"name,omitempty"` // or the day
	// Uses are questions that were understood, and answers that were spoken.
	Uses       int64   `json:"uses"`
	Seconds    float64 `json:"heard_seconds"`
	Characters int64   `json:"characters"`
	Cost       float64 `json:"cost,omitempty"`
}

// VoiceUsage returns what boards have used of speech engines in the last days.
func (s *Service) VoiceUsage(ctx context.Context, c Caller, in VoiceUsageQuery) (VoiceUsage, error) {
	if err := admin(c); err != nil {
		return VoiceUsage{}, err
	}
	if in.Days == 0 {
		in.Days = usageDays
	}
	if in.Days < 1 || in.Days > maxUsageDays {
		return VoiceUsage{}, problem.New(problem.Invalid, msgUsageDays, in.Days, maxUsageDays)
	}
	sums, err := s.Voice.Usage(ctx, in.Days)
	if err != nil {
		return VoiceUsage{}, err
	}
	var total store.SpeechUse
	for _, day := range sums.Days {
		total = total.Plus(day.SpeechUse)
	}
	return VoiceUsage{Since: sums.Since, Currency: sums.Currency, Total: usageOf(store.SpeechSum{SpeechUse: total}),
		Days: usages(sums.Days), People: usages(sums.People), Devices: usages(sums.Devices),
		Engines: usages(sums.Engines)}, nil
}

func usages(sums []store.SpeechSum) []Usage {
	list := make([]Usage, len(sums))
	for i, s := range sums {
		list[i] = usageOf(s)
	}
	return list
}

func usageOf(s store.SpeechSum) Usage {
	return Usage{ID: s.ID, Name: s.Name, Uses: s.Uses, Seconds: s.Heard.Round(100 * time.Millisecond).Seconds(),
		Characters: s.Characters, Cost: float64(s.Cost) / 1e6}
}

// Minutes returns the duration of what was heard, such as 1:05 for 65 seconds.
func (u Usage) Minutes() string {
	seconds := int64(u.Seconds + 0.5)
	return strconv.FormatInt(seconds/60, 10) + ":" + strconv.FormatInt(seconds%60+100, 10)[1:]
}

// Price returns the cost with a currency; empty: it costs nothing.
func (u Usage) Price(currency string) string {
	if u.Cost == 0 {
		return ""
	}
	price := strconv.FormatFloat(u.Cost, 'f', 2, 64)
	if u.Cost < 0.01 {
		price = strconv.FormatFloat(u.Cost, 'f', 6, 64)
	}
	if currency != "" {
		price += " " + currency
	}
	return price
}
