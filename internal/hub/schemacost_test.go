//go:build unix

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"patchbay/internal/tool"
)

// offeredWith returns a tool whose schema is validated only by the library.
func offeredWith(text string) *RegisteredTool {
	o := &RegisteredTool{Tool: &tool.Tool{Input: []byte(text)}}
	o.cached().schema = &schema{text: []byte(text)}
	o.cached().schemaOnce.Do(func() {})
	return o
}

// nested returns nested JSON.
func nested(open, inner, end string, deep int) string {
	return strings.Repeat(open, deep) + inner + strings.Repeat(end, deep)
}

// each joins n pieces with commas.
func each(n int, piece func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = piece(i)
	}
	return strings.Join(list, ",")
}

// costly are schemas and arguments that are designed to consume processor time.
func costly() map[string][2]string {
	number := func(i int) string { return fmt.Sprint(i) }
	text := func(i int) string { return fmt.Sprintf(`"%030d"`, i) }
	return map[string][2]string{
		"nested not":     {nested(`{"not":`, `{}`, `}`, 3000), `{}`},
		"nested not, 60": {nested(`{"not":`, `{}`, `}`, 60), `{}`},
		"nested all of":  {nested(`{"allOf":[`, `{}`, `]}`, 30), `{}`},
		"unevaluated": {nested(`{"unevaluatedProperties":`, `{"type":"null"}`, `}`, 60),
			nested(`{"a":`, `1`, `}`, 60)},
		"doubled": {`{"$defs":{` + each(60, func(i int) string {
			return fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
		}) + `,"a60":{"type":"object"}},"$ref":"#/$defs/a0"}`, `{}`},
		"doubled by depth": {`{"$defs":{"n":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}},"$ref":"#/$defs/n"}`, nested(`{"a":`, `1`, `}`, 60)},
		"a chain": {`{"$defs":{` +
			each(1500, func(i int) string { return fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d"}`, i, i+1) }) +
			`,"a1500":{}},"$ref":"#/$defs/a0"}`, `{}`},
		"wide": {`{"properties":{` + each(2000,
			func(i int) string { return fmt.Sprintf(`"a%d":{"type":"string"}`, i) }) + `}}`, `{}`},
		"wider":        {`{"allOf":[` + each(3900, func(int) string { return `{}` }) + `]}`, `{}`},
		"far too wide": {`{"allOf":[` + each(40000, func(int) string { return `{}` }) + `]}`, `{}`},
		"ids": {`{"$defs":{` +
			each(1900, func(i int) string { return fmt.Sprintf(`"a%d":{"$id":"http://x/%d"}`, i, i) }) + `}}`, `{}`},
		"anchors": {`{"$defs":{` +
			each(1900, func(i int) string { return fmt.Sprintf(`"a%d":{"$anchor":"a%d"}`, i, i) }) + `},"$ref":"#a7"}`,
			`{}`},
		"a large number": {`{"properties":{"a":{"minimum":1}}}`, `{"a":1e999999}`},
		"many such": {`{"properties":{"a":{"items":{"minimum":1}}}}`,
			`{"a":[` + each(1000, func(int) string { return `1e900000` }) + `]}`},
		"no such number": {`{"properties":{"a":{"minimum":1}}}`, `{"a":1e99999999}`},
		"a large bound":  {`{"properties":{"a":{"minimum":1e999999}}}`, `{"a":1}`},
		"digits":         {`{"properties":{"a":{"multipleOf":3}}}`, `{"a":` + strings.Repeat("7", 100000) + `}`},
		"a pattern": {`{"properties":{"a":{"pattern":"` + strings.Repeat(`.{1000}`, 800) + `"}}}`,
			`{"a":"` + strings.Repeat("x", 100000) + `"}`},
		"a slow pattern": {`{"properties":{"a":{"pattern":"^(x?){600}y$"}}}`,
			`{"a":"` + strings.Repeat("x", 1000000) + `"}`},
		"many patterns": {`{"properties":{` + each(100,
			func(i int) string { return fmt.Sprintf(`"a%d":{"pattern":"^(x?){600}y$"}`, i) }) + `}}`,
			`{` + each(100, func(i int) string { return fmt.Sprintf(`"a%d":"%s"`, i, strings.Repeat("x", 600)) }) +
				`}`},
		"pattern names": {`{"patternProperties":{` + each(900,
			func(i int) string { return fmt.Sprintf(`"^a%d(x?){10}":{}`, i) }) + `}}`,
			`{` + each(2000, func(i int) string { return fmt.Sprintf(`"b%d":1`, i) }) + `}`},
		"an enum": {`{"properties":{"a":{"items":{"enum":[` + each(5000, text) + `]}}}}`,
			`{"a":[` + each(5000, text) + `]}`},
		"an enum of numbers": {`{"properties":{"a":{"items":{"enum":[` + each(5000, number) + `]}}}}`,
			`{"a":[` + each(5000, func(i int) string { return number(i + 5000) }) + `]}`},
		"unique": {`{"properties":{"a":{"uniqueItems":true}}}`,
			`{"a":[` + each(20, func(i int) string {
				return `[` +
					each(5000, func(j int) string { return number(j + j/4999*i) }) + `]`
			}) + `]}`},
		"many things wrong": {`{"properties":{"a":{"items":{"enum":[` + each(3000, text) + `]}}}}`,
			`{"a":[` + each(60, func(i int) string { return text(i + 3000) }) + `]}`},
		"many needed": {`{"properties":{"a":{"items":{"required":[` + each(5000, text) + `]}}}}`,
			`{"a":[` + each(1000, func(int) string { return `{}` }) + `]}`},
		"just affordable": affordable(`{"properties":{"a":{"items":{"anyOf":[`+
			each(9, func(int) string { return `{"type":["string","null"],"minLength":3}` })+`]}}}}`, "1234"),
		"objects": affordable(`{"properties":{"a":{"items":{"properties":{"b":{"minimum":1,"maximum":1e9,"multipleOf":1}},`+
			`"unevaluatedProperties":false}}}}`, `{"b":1234}`),
		"wrong objects": affordable(`{"properties":{"a":{"items":{"additionalProperties":false,"required":["b"]}}}}`,
			`{"a":1}`),
		"no objects": affordable(`{"properties":{"a":{"items":{"type":"string"}}}}`, `[]`),
		"wrong numbers": affordable(`{"properties":{"a":{"items":{"minimum":9e9,"multipleOf":7e9}}}}`,
			"123456789"),
		"long numbers": affordable(`{"properties":{"a":{"items":{"multipleOf":`+strings.Repeat("7", 399)+`}}}}`,
			strings.Repeat("9", 399)),
		"wrong texts": affordable(`{"properties":{"a":{"items":{"pattern":"^b","format":"date"}}}}`, `"a"`),
		"wrong names": affordable(`{"properties":{"a":{"items":{"propertyNames":{"maxLength":1}}}}}`, `{"abc":1}`),
		"twins":       affordable(`{"properties":{"a":{"items":{"uniqueItems":true}}}}`, `[1,2,3,4,5,[6],[7],{"a":8}]`),
		"a choice": affordable(`{"properties":{"a":{"items":{"oneOf":[{"required":["x"]},{"required":["y"]}]}}}}`,
			`{"a":1}`),
		"a large text": {`{"properties":{"a":{"type":"string","minLength":1,"maxLength":9000000}}}`,
			`{"a":"` + strings.Repeat("x", 4<<20) + `"}`},
		"large texts": {`{"properties":{"a":{"items":{"type":"string","minLength":1}}}}`,
			`{"a":[` + each(1000, func(int) string { return `"` + strings.Repeat(`\u00e9`, 4000/6) + `"` }) + `]}`},
		"many values": {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":[` + strings.Repeat("1,", 2<<20) + `1]}`},
		"many values of a simple schema": {`{"type":"object","properties":{"a":{"type":"array"}}}`,
			`{"a":[` + strings.Repeat("1,", 2<<20) + `1]}`},
		"much space":   {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":` + strings.Repeat(" ", 4<<20) + `1}`},
		"half as wide": {`{"allOf":[` + each(1900, func(int) string { return `{}` }) + `]}`, `{}`},
		"half the ids": {`{"$defs":{` +
			each(950, func(i int) string { return fmt.Sprintf(`"a%d":{"$id":"http://x/%d"}`, i, i) }) + `}}`, `{}`},
		"fractions":      affordable(`{"properties":{"a":{"items":{"multipleOf":1e-400,"minimum":1e-400}}}}`, "1e400"),
		"deep arguments": {`{"type":"object","properties":{"a":{}}}`, nested(`{"a":`, `1`, `}`, 3000)},
		"dynamic": {nested(`{"properties":{"a":{"$dynamicAnchor":"x","$dynamicRef":"#x"}},"not":`, `{}`,
			`}`, 20), `{"a":1}`},
	}
}

// affordable returns a schema and an array a of as many copies of a value as can just be checked.
func affordable(schema, value string) [2]string {
	args := func(n int) string { return `{"a":[` + strings.Repeat(value+",", n) + value + `]}` }
	text := asSentence(errTooCostly).Error()
	n := sort.Search(maxSteps, func(n int) bool {
		err := offeredWith(schema).check(context.Background(), []byte(args(n)))
		return err != nil && err.Error() == text
	})
	return [2]string{schema, args(n - 1)}
}

// TestCostlySchemas checks that a check takes a short time, whatever the schema, and ends when its
// caller has left.
func TestCostlySchemas(t *testing.T) {
	for name, pair := range costly() {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			var o *RegisteredTool
			var err error
			wantCheap(t, "the check", func() {
				o = offeredWith(pair[0]) // is compiled in it
				err = o.check(ctx, []byte(pair[1]))
			})
			t.Logf("%.150v", err)
			if err != nil && len(err.Error()) > 8<<10 {
				t.Errorf("the caller is told %d bytes", len(err.Error()))
			}
			leave()
			wantCheap(t, "after its caller had left, the check", func() {
				if err := o.check(ctx, []byte(pair[1])); err == nil {
					t.Error("a check whose caller has left came to its end")
				}
			})
		})
	}
}

// TestReasonableSchemas checks that schemas like those of real tools are still validated.
func TestReasonableSchemas(t *testing.T) {
	o := offeredWith(`{"$defs":{"block":{"oneOf":[
		{"type":"object","properties":{"type":{"const":"list"},"items":{"type":"array","items":{"$ref":"#/$defs/block"}}},"required":["type","items"]},
		{"type":"object","properties":{"type":{"const":"text"},"text":{"type":"string","pattern":"^[^<]*$","maxLength":2000}},"required":["type","text"],"additionalProperties":false}]}},
		"type":"object","properties":{"blocks":{"type":"array","items":{"$ref":"#/$defs/block"}}},"required":["blocks"]}`)
	blocks := func(word string) string {
		return `{"blocks":[` + each(1000, func(int) string {
			return nested(`{"type":"list","items":[`, `{"type":"text","text":"`+word+`"}`, `]}`, 3)
		}) + `]}`
	}
	if err := o.check(t.Context(), []byte(blocks("hello"))); err != nil {
		t.Error(err)
	}
	if err := o.check(t.Context(), []byte(blocks("<hello>"))); err == nil || errors.Is(err, errTooCostly) {
		t.Error("what does not fit was let through:", err)
	}
	for name, n := range map[string]string{"1e308": "1e308", "a number of 300 digits": strings.Repeat("9", 300)} {
		if err := offeredWith(`{"properties":{"a":{"maximum":10}}}`).check(t.Context(),
			[]byte(`{"a":`+n+`}`)); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzSchema checks that no schema and no arguments cost more than the limit, and that what is
// told is short.
func FuzzSchema(f *testing.F) {
	for _, pair := range costly() {
		if len(pair[0])+len(pair[1]) < 8<<10 {
			f.Add(pair[0], pair[1])
		}
	}
	f.Fuzz(func(t *testing.T, text, args string) {
		if !json.Valid([]byte(text)) || !json.Valid([]byte(args)) {
			return // neither comes this far
		}
		var err error
		wantCheap(t, "the check", func() { err = offeredWith(text).check(t.Context(), []byte(args)) })
		if err != nil && len(err.Error()) > 8<<10 {
			t.Errorf("the caller is told %d bytes", len(err.Error()))
		}
	})
}
