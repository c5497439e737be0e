package schemaform

import (
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
)

// describedBy links a field to its hint and error for screen readers.
func describedBy(id string, f *Field, hinted bool) templ.Attributes {
	a := templ.Attributes{}
	var by []string
	if hinted {
		by = append(by, id+"-hint")
	}
	if f.Wrong != "" {
		by = append(by, id+"-wrong")
		if f.Kind != Some {
			a["aria-invalid"] = "true"
		}
	}
	if len(by) > 0 {
		a["aria-describedby"] = strings.Join(by, " ")
	}
	return a
}

// limitAttr returns an attribute, or none if its value is empty.
func limitAttr(name, value string) templ.Attributes {
	if value == "" {
		return nil
	}
	return templ.Attributes{name: value}
}

// hint returns the description of a field from its schema, and how to fill it in.
func hint(v *page.Visit, f *Field) string {
	var parts []string
	if f.Hint != "" {
		parts = append(parts, toolwords.Translate(v.Lang, f.Hint))
	}
	switch f.Kind {
	case Lines:
		parts = append(parts, v.Text(msgEachLine))
	case JSON:
		parts = append(parts, v.Text(msgAsJSON))
	case Number:
		switch {
		case f.Min != "" && f.Max != "":
			parts = append(parts, v.Text(msgFromTo, f.Min, f.Max))
		case f.Min != "":
			parts = append(parts, v.Text(msgFrom, f.Min))
		case f.Max != "":
			parts = append(parts, v.Text(msgUpTo, f.Max))
		}
	}
	return strings.Join(parts, " ")
}

// optionLabel returns the label of an option; true and false become yes and no.
func optionLabel(v *page.Visit, o Option) string {
	switch {
	case o.Value == "true" && o.Label == "true":
		return v.Text(msgYes)
	case o.Value == "false" && o.Label == "false":
		return v.Text(msgNo)
	}
	return o.Label
}

func (f *Field) maxLength() string {
	if f.MaxLength == 0 {
		return ""
	}
	return strconv.Itoa(f.MaxLength)
}

// step and keys return which numbers the browser accepts, and which on-screen keyboard it shows.
func (f *Field) step() string {
	if f.IsInteger {
		return "1"
	}
	return "any"
}

func (f *Field) keys() string {
	switch {
	case strings.HasPrefix(f.Min, "-") || f.Min == "":
		return "text" // the numeric keyboards of phones have no minus
	case f.IsInteger:
		return "numeric"
	}
	return "decimal"
}
