package settings

import "strings"

// ParseBool parses true, yes, on, 1 and their opposites, in any case.
func ParseBool(text string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// SplitList splits a list at its commas and omits empty items. It never returns nil, so that equal
// settings are deeply equal.
func SplitList(text string) []string {
	list := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}
