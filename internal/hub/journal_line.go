package hub

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/store"
)

// appendRow appends a record in JSON, with the names of the tags of [store.Call]. A call with an
// effect is encoded twice while its caller waits; encoding/json takes three times as long.
func appendRow(to []byte, row *store.Call) []byte {
	to = append(to, `{"id":`...)
	to = appendText(to, row.ID)
	to = append(to, `,"at":"`...)
	to = row.At.AppendFormat(to, time.RFC3339Nano)
	to = append(to, '"')
	for _, f := range [...]struct{ name, text string }{
		{"person", row.Person},
		{"actor", row.Actor},
		{"address", row.Address},
		{"key", row.Key},
		{"turn", row.Turn},
		{"channel", row.Channel},
		{"program", row.Program},
		{"device", row.Device},
		{"provider", row.Provider},
		{"tool", row.Tool},
		{"instance", row.Instance},
		{"outcome", row.Outcome},
		{"code", row.Code},
		{"cause", row.Cause},
		{"args", row.Args},
	} {
		if f.text != "" {
			to = append(to, `,"`...)
			to = append(to, f.name...)
			to = append(to, `":`...)
			to = appendText(to, f.text)
		}
	}
	for _, f := range [...]struct {
		name   string
		number int64
	}{
		{"bot", row.Bot},
		{"took", int64(row.Took)},
		{"bytes", row.Bytes},
	} {
		if f.number != 0 {
			to = append(to, `,"`...)
			to = append(to, f.name...)
			to = append(to, `":`...)
			to = strconv.AppendInt(to, f.number, 10)
		}
	}
	return append(to, '}')
}

// appendText appends a JSON string. Bytes that are not UTF-8 are replaced.
func appendText(to []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, string(utf8.RuneError))
	}
	to = append(to, '"')
	plain := 0 // start of the part without escapes
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to = append(to, s[plain:i]...)
		if plain = i + 1; c < ' ' {
			to = fmt.Appendf(to, `\u%04x`, c)
		} else {
			to = append(to, '\\', c)
		}
	}
	to = append(to, s[plain:]...)
	return append(to, '"')
}
