package schemaform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Many fields that refer to one large definition cost little more than one; fields beyond the limit
// are typed as JSON.
func TestReferencesCostLittle(t *testing.T) {
	repeated := func(s string) string { return strings.TrimSuffix(strings.Repeat(s, 56_000/len(s)), ",") }
	for name, def := range map[string]string{
		"values":        `{"enum":[` + repeated("1,") + `]}`,
		"constants":     `{"oneOf":[` + repeated(`{"const":1},`) + `]}`,
		"nothing":       `{"allOf":[` + repeated("{},") + `]}`,
		"null":          `{"anyOf":[` + repeated(`{"type":"null"},`) + `]}`,
		"a long string": `{"type":"string","description":"` + repeated("a") + `"}`,
	} {
		schema := func(fields int) json.RawMessage {
			props := make([]string, fields)
			for i := range props {
				props[i] = fmt.Sprintf(`"p%d":{"$ref":"#/$defs/x"}`, i)
			}
			return json.RawMessage(`{"properties":{` + strings.Join(props, ",") + `},"$defs":{"x":` + def + `}}`)
		}
		took := func(fields int) time.Duration {
			start := time.Now()
			f := Read(schema(fields))
			if len(f.Fields) != fields || fields > 10 && f.Fields[fields-1].Kind != JSON {
				t.Errorf("%s: %d fields, the last is %+v", name, len(f.Fields), f.Fields[len(f.Fields)-1])
			}
			return time.Since(start)
		}
		// Without the limit it took 64 times as long.
		if one, all := took(1), took(maxFields); all > 20*one+time.Second {
			t.Errorf("%s: %v for one field, %v for %d", name, one, all, maxFields)
		} else {
			t.Logf("%s: %v for one field, %v for %d", name, one, all, maxFields)
		}
	}
}
