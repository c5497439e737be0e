package config

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/settings"
)

// want describes the form of a type's values, after "give ".
var want = map[Type]string{
	Text:     "text on one line, without control characters",
	Path:     "a path on one line, without control characters",
	Number:   "a whole number such as 10",
	Bool:     "true or false",
	Duration: "a duration such as 7s, 10m or 30d",
	Bytes:    "a size such as 512KiB or 8MiB",
	List:     "values separated by commas, without control characters",
}

// wanted describes the form of the key's values.
func (k *Key) wanted() string {
	if len(k.oneOf) > 0 {
		return k.Range
	}
	if k.Range != "" {
		return want[k.Type] + ", from " + k.Range
	}
	return want[k.Type]
}

// parse converts the text form of a value to its type. Validate checks ranges and choices later.
func (k *Key) parse(text string) (value any, ok bool) {
	if !printable(text) {
		return nil, false
	}
	switch k.Type {
	case Number:
		n, err := strconv.Atoi(strings.TrimSpace(text))
		return n, err == nil
	case Bool:
		return settings.ParseBool(text)
	case Duration:
		d, err := settings.ParseDuration(text)
		return d, err == nil
	case Bytes:
		s, err := ParseSize(text)
		return s, err == nil
	case List:
		return settings.SplitList(text), true
	case Path:
		return text, true
	}
	for _, choice := range k.oneOf {
		if strings.EqualFold(choice, strings.TrimSpace(text)) {
			return choice, true
		}
	}
	return text, true
}

// text returns the text form of a value, which parse reads back.
func (k *Key) text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Duration:
		return settings.FormatDuration(v)
	case Size:
		return v.String()
	case []string:
		return strings.Join(v, ", ")
	}
	panic("config: " + k.Path + " has a type that no setting can have")
}

// printable reports whether a text can be written on one line of YAML unchanged.
func printable(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\ufeff', r&0xfffe == 0xfffe:
			return false
		}
	}
	return true
}

// maxShown limits how many bytes of an invalid value a problem quotes.
const maxShown = 60

// show quotes a value, shortened to maxShown bytes.
func show(text string) string {
	if len(text) > maxShown {
		cut := maxShown
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		return strconv.Quote(text[:cut]) + "…"
	}
	return strconv.Quote(text)
}

// name returns a key as it was given, quoted if it contains unusual characters.
func name(key string) string {
	if key == "" || len(key) > maxShown {
		return show(key)
	}
	for _, r := range key {
		if r != '_' && r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return show(key)
		}
	}
	return key
}
