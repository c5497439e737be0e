package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. Its text is a whole number with a unit: B, KiB, MiB, GiB (powers of
// 1024) or kB, MB, GB (powers of 1000).
type Size int64

// Units of [Size].
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
)

var errSize = errors.New("not a size such as 512KiB or 8MiB")

// sizeUnits has the units that String uses first, from largest to smallest. Names to match are in
// lower case.
var sizeUnits = []struct {
	lower, name string
	bytes       Size
}{
	{"gib", "GiB", GiB},
	{"mib", "MiB", MiB},
	{"kib", "KiB", KiB},
	{"b", "B", 1},
	{"kb", "kB", 1000},
	{"mb", "MB", 1000 * 1000},
	{"gb", "GB", 1000 * 1000 * 1000},
}

// ParseSize parses the text form of a size: "1MiB", "512 kib", "64kB", or "100" for bytes. Negative
// and fractional sizes are errors.
func ParseSize(text string) (Size, error) {
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := strings.ToLower(text[len(digits):])
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	if err != nil {
		return 0, errSize
	}
	if unit == "" {
		unit = "b"
	}
	for _, u := range sizeUnits {
		if u.lower != unit {
			continue
		}
		if n > uint64(math.MaxInt64/u.bytes) {
			return 0, errSize
		}
		return Size(n) * u.bytes, nil
	}
	return 0, errSize
}

// String returns the shortest exact text with a unit of 1024, such as "8MiB".
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0B"
}

// MarshalText returns String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText calls [ParseSize].
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseSize(string(text))
	if err == nil {
		*s = n
	}
	return err
}
