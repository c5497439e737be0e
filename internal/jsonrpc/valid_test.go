package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
)

var validTexts = []string{
	"", " ", "null", " true ", "false", "nul", "nulll", "tru", "TRUE", "0", "-0", "00", "01", "-", "+1", "1.", ".5", "1.5",
	"1e", "1e5", "1E+5", "1e-", "1e-05", "1.5.5", "0x1", "NaN", "1 2", `""`, `"`, `"a`, `"\"`, `"\""`, `"\u12"`, `"\u12G4"`,
	`"\u12aF"`, `"\x"`, `"\/"`, "\"a\tb\"", "\"\x7f\"", "\"\xff\"", "\"\x00\"", `"12345678"`, `"1234567\"`, `"12345678\n1"`,
	"\"12345678\x1f1234567\"", "\"!!!!!!!!\"", "\"\x80\x80\x80\x80\x80\x80\x80\x80\"", "[]", "[ ]", "[,]", "[1,]", "[1 2]",
	"[1,2]", " [ 1 , 2 ] ", "[", "[1", "]", "{}", "{ }", "{,}", `{"a"}`, `{"a":}`, `{"a":1}`, `{ "a" : 1 , "b" : [ { } ] } `,
	`{"a":1,}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1]`, `[1}`, `{"a":1}x`, "\ufeff{}", "\v1", "//", "{\"a\":1}\n",
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"volume","arguments":{"level":50,"note":"Größe 大"}}}`,
}

// Valid agrees with encoding/json.
func TestValid(t *testing.T) {
	texts := validTexts
	for _, depth := range []int{maxDepth - 1, maxDepth, maxDepth + 1} {
		texts = append(texts, strings.Repeat("[", depth)+strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	}
	for _, text := range texts {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q: %v, encoding/json has %v", text, got, want)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range validTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Errorf("%q: %v, encoding/json has %v", text, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte(validTexts[len(validTexts)-1])
	for name, valid := range map[string]func([]byte) bool{"jsonrpc": Valid, "encoding": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !valid(text) {
					b.Fatal("invalid")
				}
			}
		})
	}
}
