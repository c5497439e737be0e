package apkg

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Collections of schema 15 and later have protobuf messages where those of schema 11 have JSON
// (proto/anki/notetypes.proto, decks.proto and deck_config.proto; the JSON is that of schema11.rs
// in rslib/src/notetype, decks and deckconfig). The tables in attributes.go say which field of a
// message is which attribute of the JSON; the functions here convert with them, both ways.

// attrKind is the type of an attribute, in both forms.
type attrKind int

const (
	attrText     attrKind = iota
	attrNumber            // an integer
	attrSet               // an integer; missing in JSON if it is 0
	attrOptional          // an integer; null in JSON if it is missing
	attrNull              // an integer; null in JSON if it is 0
	attrBool
	attrTrue    // a bool; true if it is missing in JSON
	attrNot     // a bool that means the opposite in JSON
	attrSwitch  // a bool; 0 or 1 in JSON
	attrSetBool // a bool; missing in JSON if it is false
	attrOther1  // an integer, 1 for 0 in JSON and 0 for 1
	attrFloat
	attrHard    // a float; 1.2 if it is missing in JSON
	attrPercent // an optional float; percent in JSON
	attrFactor  // a float; thousandths in JSON
	attrFloats
	attrFloatsOrNull
	attrFirst        // an integer; the first number of an array in JSON
	attrSecond       // an integer; the second number of an array in JSON
	attrRequirements // which fields a card needs
	attrTerms        // searches of a filtered deck
	attrDayLimit     // a limit that holds for one day
)

// attr maps a field of a message to an attribute.
type attr struct {
	field uint64
	name  string // in JSON; "a.b" is b of the object a
	kind  attrKind
}

const (
	// otherField has the attributes of JSON that have no field, as JSON.
	otherField = 255
	// unknownAttr has, in base64, the fields that no attribute is known for.
	unknownAttr = "_protobuf"
)

// record is a JSON object; numbers are json.Number.
type record = map[string]any

// parseRecord reads a JSON object, or returns nil.
func parseRecord(data []byte) record {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var r record
	if dec.Decode(&r) != nil {
		return nil
	}
	return r
}

// place finds the object that has an attribute, and its name there. It makes missing objects.
func place(r record, name string) (record, string) {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return r, name
	}
	object, ok := r[outer].(record)
	if !ok {
		object = record{}
		r[outer] = object
	}
	return object, inner
}

// fromProto adds the fields of a message to a record.
func fromProto(r record, message []byte, attrs []attr) error {
	for _, a := range attrs { // what is missing has its default
		object, name := place(r, a.name)
		a.set(object, name, protoValue{field: a.field})
	}
	var unknown []byte
	err := protoFields(message, func(v protoValue) error {
		if v.field == otherField {
			mergeOther(r, v.data)
			return nil
		}
		i := slices.IndexFunc(attrs, func(a attr) bool { return a.field == v.field })
		if i < 0 {
			unknown = append(unknown, v.raw...)
			return nil
		}
		object, name := place(r, attrs[i].name)
		attrs[i].set(object, name, v)
		return nil
	})
	if len(unknown) > 0 {
		r[unknownAttr] = base64.StdEncoding.EncodeToString(unknown)
	}
	return err
}

// mergeOther adds attributes without a field. They never replace one that has a field.
func mergeOther(r record, data []byte) {
	for name, value := range parseRecord(data) {
		inner, isObject := value.(record)
		object, known := r[name].(record)
		switch {
		case isObject && known:
			for k, v := range inner {
				if _, taken := object[k]; !taken {
					object[k] = v
				}
			}
		case r[name] == nil:
			r[name] = value
		}
	}
}

// set sets an attribute to the value of a field; one without raw bytes is missing.
func (a attr) set(r record, name string, v protoValue) {
	missing := v.raw == nil
	switch a.kind {
	case attrText:
		r[name] = strings.ToValidUTF8(string(v.data), "\ufffd")
	case attrNumber:
		r[name] = number(v.number)
	case attrSet:
		if v.number != 0 {
			r[name] = number(v.number)
		}
	case attrOptional:
		r[name] = nil
		if !missing {
			r[name] = number(v.number)
		}
	case attrNull:
		r[name] = nil
		if v.number != 0 {
			r[name] = number(v.number)
		}
	case attrBool, attrTrue:
		r[name] = v.number != 0
	case attrNot:
		r[name] = v.number == 0
	case attrSwitch:
		r[name] = number(min(v.number, 1))
	case attrSetBool:
		if v.number != 0 {
			r[name] = true
		}
	case attrOther1:
		r[name] = number(1 - min(v.number, 1))
	case attrFirst, attrSecond:
		a.setPair(r, name, number(v.number))
	default:
		a.setOthers(r, name, v)
	}
}

func (a attr) setPair(r record, name string, n json.Number) {
	pair, ok := r[name].([]any)
	if !ok {
		pair = []any{json.Number("0"), json.Number("0")}
		if name == "ints" {
			pair = append(pair, json.Number("0")) // the third is not used
		}
		r[name] = pair
	}
	pair[a.kind-attrFirst] = n
}

func (a attr) setOthers(r record, name string, v protoValue) {
	floats := protoFloats(v)
	var float float32
	if len(floats) > 0 {
		float = floats[0]
	}
	switch a.kind {
	case attrFloat, attrHard:
		r[name] = floatNumber(float)
	case attrFactor:
		r[name] = json.Number(strconv.Itoa(int(math.Round(float64(float) * 1000))))
	case attrPercent:
		r[name] = nil
		if v.raw != nil {
			r[name] = json.Number(strconv.Itoa(int(math.Round(float64(float) * 100))))
		}
	case attrFloats, attrFloatsOrNull:
		list, ok := r[name].([]any)
		if !ok && (a.kind == attrFloats || len(floats) > 0) {
			list = []any{}
		}
		for _, f := range floats { // a list that is not packed has a field for each
			list = append(list, floatNumber(f))
		}
		r[name] = list
		if list == nil {
			r[name] = nil
		}
	case attrRequirements:
		a.add(r, name, v, requirement)
	case attrTerms:
		a.add(r, name, v, searchTerm)
	case attrDayLimit:
		r[name] = nil
		if v.raw != nil {
			limit, _, _ := protoField(v.data, 1)
			today, _, _ := protoField(v.data, 2)
			r[name] = record{"limit": number(limit), "today": number(today)}
		}
	}
}

// add appends a message to an array.
func (a attr) add(r record, name string, v protoValue, convert func([]byte) any) {
	list, ok := r[name].([]any)
	if !ok {
		list = []any{}
	}
	if v.raw != nil {
		list = append(list, convert(v.data))
	}
	r[name] = list
}

// requirementKinds are the names of Notetype.Config.CardRequirement.Kind.
var requirementKinds = []string{"none", "any", "all"}

func requirement(message []byte) any {
	card, _, _ := protoField(message, 1)
	kind, _, _ := protoField(message, 2)
	fields := []any{}
	_ = protoFields(message, func(v protoValue) error {
		switch {
		case v.field != 3:
		case v.wire == wireVarint:
			fields = append(fields, number(v.number))
		default: // packed
			for data := v.data; len(data) > 0; {
				n, size := uvarint(data)
				fields, data = append(fields, number(n)), data[size:]
			}
		}
		return nil
	})
	return []any{number(card), requirementKinds[min(kind, 2)], fields}
}

func searchTerm(message []byte) any {
	_, search, _ := protoField(message, 1)
	limit, _, _ := protoField(message, 2)
	order, _, _ := protoField(message, 3)
	return []any{strings.ToValidUTF8(string(search), "\ufffd"), number(limit), number(order)}
}

// number formats an integer of a message; negative ones are 64 bits long.
func number(n uint64) json.Number { return json.Number(strconv.FormatInt(int64(n), 10)) }

func floatNumber(f float32) json.Number {
	if f != f || math.IsInf(float64(f), 0) {
		return "0"
	}
	return json.Number(strconv.FormatFloat(float64(f), 'g', -1, 32))
}

// toProto converts a record to a message. Attributes that are named neither in attrs nor in known
// are its other ones.
func toProto(r record, attrs []attr, known ...string) []byte {
	var b []byte
	rest := record{}
	for name, value := range r {
		if inner, ok := value.(record); ok {
			value = maps.Clone(inner)
		}
		rest[name] = value
	}
	for _, a := range attrs {
		object, name := place(r, a.name)
		value, has := object[name]
		b = a.append(b, value, has)
		object, name = place(rest, a.name)
		delete(object, name)
	}
	for _, name := range known {
		delete(rest, name)
	}
	if text, ok := rest[unknownAttr].(string); ok {
		if unknown, err := base64.StdEncoding.DecodeString(text); err == nil {
			b = append(b, unknown...)
		}
		delete(rest, unknownAttr)
	}
	maps.DeleteFunc(rest, func(_ string, v any) bool {
		inner, ok := v.(record)
		return ok && len(inner) == 0
	})
	if len(rest) > 0 {
		if other, err := json.Marshal(rest); err == nil {
			b = appendBytes(b, otherField, other)
		}
	}
	return b
}

// append adds the field of an attribute. Fields with default values are left out, as in proto3.
func (a attr) append(b []byte, value any, has bool) []byte {
	n := integer(value)
	switch a.kind {
	case attrText:
		if s, _ := value.(string); s != "" {
			return appendBytes(b, a.field, s)
		}
		return b
	case attrOptional:
		if value == nil {
			return b
		}
		return appendVarint(b, a.field, uint64(n))
	case attrTrue:
		n = truth(!has || isTrue(value))
	case attrNot:
		n = truth(has && !isTrue(value))
	case attrBool, attrSwitch, attrSetBool:
		n = truth(isTrue(value))
	case attrOther1:
		n = truth(has && n == 0)
	case attrFirst, attrSecond:
		n = 0
		if pair, _ := value.([]any); len(pair) > int(a.kind-attrFirst) {
			n = integer(pair[a.kind-attrFirst])
		}
	case attrNumber, attrSet, attrNull:
	default:
		return a.appendOthers(b, value)
	}
	if n == 0 {
		return b
	}
	return appendVarint(b, a.field, uint64(n))
}

func (a attr) appendOthers(b []byte, value any) []byte {
	list, _ := value.([]any)
	float := float32(real64(value))
	switch a.kind {
	case attrFactor:
		float /= 1000
	case attrHard:
		if value == nil {
			float = 1.2
		}
	case attrPercent:
		if value == nil {
			return b
		}
		return appendFloat(b, a.field, float/100)
	case attrFloats, attrFloatsOrNull:
		floats := make([]float32, len(list))
		for i, v := range list {
			floats[i] = float32(real64(v))
		}
		return appendFloats(b, a.field, floats)
	case attrRequirements:
		for _, v := range list {
			b = appendBytes(b, a.field, requirementProto(v))
		}
		return b
	case attrTerms:
		for _, v := range list {
			term, _ := v.([]any)
			var m []byte
			for i, kind := range []attrKind{attrText, attrNumber, attrNumber} {
				if i < len(term) {
					m = attr{uint64(i + 1), "", kind}.append(m, term[i], true)
				}
			}
			b = appendBytes(b, a.field, m)
		}
		return b
	case attrDayLimit:
		limit, ok := value.(record)
		if !ok {
			return b
		}
		m := attr{1, "", attrNumber}.append(nil, limit["limit"], true)
		return appendBytes(b, a.field, attr{2, "", attrNumber}.append(m, limit["today"], true))
	}
	if float == 0 {
		return b
	}
	return appendFloat(b, a.field, float)
}

func requirementProto(value any) []byte {
	parts, _ := value.([]any)
	if len(parts) < 3 {
		return nil
	}
	m := attr{1, "", attrNumber}.append(nil, parts[0], true)
	kind, _ := parts[1].(string)
	m = attr{2, "", attrNumber}.append(m, json.Number(strconv.Itoa(max(slices.Index(requirementKinds, kind), 0))), true)
	fields, _ := parts[2].([]any)
	var packed []byte
	for _, f := range fields {
		packed = appendUvarint(packed, uint64(integer(f)))
	}
	if len(packed) > 0 {
		m = appendBytes(m, 3, packed)
	}
	return m
}

// integer reads a number, which programs also write as text or bool; 0 if it is none.
func integer(v any) int64 {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return int64(f)
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	case bool:
		return truth(v)
	}
	return 0
}

func real64(v any) float64 {
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64()
		return f
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return f
	}
	return 0
}

func isTrue(v any) bool {
	if b, ok := v.(bool); ok {
		return b
	}
	return integer(v) != 0
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
