package gateway

import (
	"encoding/json"
	"strconv"
	"strings"
)

// parameter is an argument of a node's command.
type parameter struct {
	name     string
	required bool
	members  []string // of its schema: a name and a JSON value each
}

// param returns a parameter of a JSON type. An empty about says nothing of it.
func param(name, kind, about string, members ...string) parameter {
	p := parameter{name: name, members: []string{"type", strconv.Quote(kind)}}
	if about != "" {
		p.members = append(p.members, "description", string(encoded(about)))
	}
	p.members = append(p.members, members...)
	return p
}

func textParam(name, about string) parameter { return param(name, "string", about) }

func flagParam(name, about string) parameter { return param(name, "boolean", about) }

// intParam is a whole number from least to most; most 0 means no limit.
func intParam(name, about string, least, most int) parameter {
	p := param(name, "integer", about, "minimum", strconv.Itoa(least))
	if most > 0 {
		p.members = append(p.members, "maximum", strconv.Itoa(most))
	}
	return p
}

// numberParam is a number between two others, which are JSON numbers or empty.
func numberParam(name, about, least, most string) parameter {
	p := param(name, "number", about)
	if least != "" {
		p.members = append(p.members, "minimum", least)
	}
	if most != "" {
		p.members = append(p.members, "maximum", most)
	}
	return p
}

func choiceParam(name, about string, words ...string) parameter {
	return param(name, "string", about, "enum", string(encoded(words)))
}

// listParam is a list of strings.
func listParam(name, about string) parameter {
	return param(name, "array", about, "items", `{"type":"string"}`)
}

// objectParam is an object with parameters of its own; any if there are none.
func objectParam(name, about string, fields ...parameter) parameter {
	p := param(name, "object", about)
	if len(fields) > 0 {
		properties, required := schemaMembers(fields)
		p.members = append(append(p.members, "properties", properties), required...)
	}
	return p
}

// needed makes a parameter required. A required list has an element.
func (p parameter) needed() parameter {
	p.required = true
	if p.members[1] == `"array"` {
		p.members = append(p.members[:len(p.members):len(p.members)], "minItems", "1")
	}
	return p
}

// paramsSchema returns the JSON Schema of a command's parameters. Others may be given too: nodes of
// other versions have more, and all ignore what they do not know.
func paramsSchema(params ...parameter) json.RawMessage {
	properties, required := schemaMembers(params)
	return json.RawMessage(jsonObject(append([]string{"type", `"object"`, "properties", properties}, required...)))
}

func schemaMembers(params []parameter) (properties string, required []string) {
	var all, names []string
	for _, p := range params {
		all = append(all, p.name, jsonObject(p.members))
		if p.required {
			names = append(names, p.name)
		}
	}
	if len(names) > 0 {
		required = []string{"required", string(encoded(names))}
	}
	return jsonObject(all), required
}

// jsonObject returns a JSON object of names and JSON values, in their order.
func jsonObject(members []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i < len(members); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(members[i]) + ":" + members[i+1])
	}
	return b.String() + "}"
}
