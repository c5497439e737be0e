package schemaform

import (
	"math"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
)

// said ties a field to what is said about it, for who hears the page.
func said(id string, f *Field, hinted bool) templ.Attributes {
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

// bound is an attribute, unless it says nothing.
func bound(name, value string) templ.Attributes {
	if value == "" {
		return nil
	}
	return templ.Attributes{name: value}
}

// hint is what is said about a field: what its schema says, and how it is filled in.
func hint(v *page.Visit, f *Field) string {
	var parts []string
	if f.Hint != "" {
		parts = append(parts, toolwords.In(v.Lang, f.Hint))
	}
	switch f.Kind {
	case Lines:
		parts = append(parts, v.Say(sayEachLine))
	case JSON:
		parts = append(parts, v.Say(sayAsJSON))
	case Number:
		switch {
		case f.Min != "" && f.Max != "":
			parts = append(parts, v.Say(sayFromTo, f.Min, f.Max))
		case f.Min != "":
			parts = append(parts, v.Say(sayFrom, f.Min))
		case f.Max != "":
			parts = append(parts, v.Say(sayUpTo, f.Max))
		}
	}
	return strings.Join(parts, " ")
}

// optionLabel is what an option is called; yes and no are words.
func optionLabel(v *page.Visit, o Option) string {
	switch {
	case o.Value == "true" && o.Label == "true":
		return v.Say(sayYes)
	case o.Value == "false" && o.Label == "false":
		return v.Say(sayNo)
	}
	return o.Label
}

// shown is where a slider stands: in the middle, if nobody knows better.
func (f *Field) shown() string {
	if f.Value != "" {
		return f.Value
	}
	low, _ := strconv.ParseFloat(f.Min, 64)  // sliders have both
	high, _ := strconv.ParseFloat(f.Max, 64) // the same
	return strconv.FormatFloat(math.Ceil((low+high)/2), 'f', -1, 64)
}

func (f *Field) maxLength() string {
	if f.MaxLength == 0 {
		return ""
	}
	return strconv.Itoa(f.MaxLength)
}

// step and keys tell a browser which numbers fit, and which keys they need.
func (f *Field) step() string {
	if f.Whole {
		return "1"
	}
	return "any"
}

func (f *Field) keys() string {
	switch {
	case strings.HasPrefix(f.Min, "-") || f.Min == "":
		return "text" // the numeric keys of telephones have no minus
	case f.Whole:
		return "numeric"
	}
	return "decimal"
}
