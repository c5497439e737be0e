package settings

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

const msgDuration = i18n.Message("%s is not a duration such as 45s, 10m or 30d")

// Duration is a duration of 0 or more that is a text in JSON, such as "45s".
type Duration time.Duration

// UnmarshalJSON reads the syntax of [ParseDuration].
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return msgDuration.Errorf(data)
	}
	v, err := ParseDuration(text)
	if err != nil || v < 0 {
		return msgDuration.Errorf(data)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes the duration as Go does ("1m30s").
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

const day = 24 * time.Hour

var errDuration = errors.New("not a duration such as 7s, 10m or 30d")

// ParseDuration parses a duration in the syntax of Go ("55s", "1h30m"), optionally with days in
// front ("30d", "1d12h"). A day is 24 hours. Days have no sign and no fraction.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	days, rest, found := strings.Cut(text, "d")
	if !found {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errDuration
		}
		return d, nil
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > uint64(math.MaxInt64/day) {
		return 0, errDuration
	}
	total := time.Duration(n) * day
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > math.MaxInt64-total {
		return 0, errDuration
	}
	return total + d, nil
}

// FormatDuration returns the short form of a duration: 7d rather than 168h0m0s.
func FormatDuration(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
