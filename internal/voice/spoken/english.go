package spoken

import (
	"strconv"
	"strings"
)

// english is how numbers are said in English.
type english struct{}

var (
	englishOnes = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen " +
		"fifteen sixteen seventeen eighteen nineteen")
	englishTens     = strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")
	englishMonths   = strings.Fields("- January February March April May June July August September October November December")
	englishOrdinals = map[string]string{"one": "first", "two": "second", "three": "third", "five": "fifth",
		"eight": "eighth", "nine": "ninth", "twelve": "twelfth"}
	// englishUnits are the singular and the plural.
	englishUnits = map[string][2]string{
		"℃": {"degree Celsius", "degrees Celsius"}, "°C": {"degree Celsius", "degrees Celsius"},
		"℉": {"degree Fahrenheit", "degrees Fahrenheit"}, "°F": {"degree Fahrenheit", "degrees Fahrenheit"},
		"€": {"euro", "euros"}, "km/h": {"kilometer per hour", "kilometers per hour"}, "mph": {"mile per hour", "miles per hour"},
		"m/s": {"meter per second", "meters per second"}, "km": {"kilometer", "kilometers"}, "m": {"meter", "meters"},
		"cm": {"centimeter", "centimeters"}, "mm": {"millimeter", "millimeters"}, "kg": {"kilogram", "kilograms"},
		"g": {"gram", "grams"}, "mg": {"milligram", "milligrams"}, "L": {"liter", "liters"},
		"ml": {"milliliter", "milliliters"}, "mL": {"milliliter", "milliliters"}, "lb": {"pound", "pounds"},
		"GB": {"gigabyte", "gigabytes"}, "MB": {"megabyte", "megabytes"}, "KB": {"kilobyte", "kilobytes"},
		"TB": {"terabyte", "terabytes"}, "kWh": {"kilowatt hour", "kilowatt hours"}, "kW": {"kilowatt", "kilowatts"},
		"W": {"watt", "watts"}, "Hz": {"hertz", "hertz"}, "kHz": {"kilohertz", "kilohertz"},
		"MHz": {"megahertz", "megahertz"}, "GHz": {"gigahertz", "gigahertz"}, "h": {"hour", "hours"},
		"min": {"minute", "minutes"}, "s": {"second", "seconds"}, "ms": {"millisecond", "milliseconds"},
	}
	// englishMoney are the singular, the plural, and the hundredths.
	englishMoney = map[string][3]string{
		"$": {"dollar", "dollars", "cents"}, "€": {"euro", "euros", "cents"}, "£": {"pound", "pounds", "pence"},
		"￥": {"yuan", "yuan", "fen"}, "¥": {"yuan", "yuan", "fen"},
	}
)

func (english) words() (to, minus, space string) { return " to ", "minus ", " " }

func (english) digits(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '+':
			b.WriteString("plus ")
		case r >= '0' && r <= '9':
			b.WriteString(englishOnes[r-'0'] + " ")
		case b.Len() > 0 && !strings.HasSuffix(b.String(), ", "):
			said := strings.TrimSpace(b.String())
			b.Reset()
			b.WriteString(said + ", ")
		}
	}
	return strings.TrimSpace(b.String())
}

func (english) number(whole, fraction string, _ rune) string {
	digits := strings.ReplaceAll(whole, ",", "")
	n, err := strconv.ParseInt(digits, 10, 64)
	var words string
	switch {
	case err != nil, digits == whole && (len(digits) > maxCardinal || len(digits) > 1 && digits[0] == '0'):
		words = english{}.digits(digits)
	case fraction == "" && len(whole) == 4 && n > 1099 && n < 2100:
		words = englishYear(int(n))
	default:
		words = englishCardinal(n)
	}
	if fraction != "" {
		words += " point " + english{}.digits(fraction)
	}
	return words
}

func englishCardinal(n int64) string {
	for _, g := range []struct {
		size int64
		name string
	}{{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}, {1000, "thousand"}, {100, "hundred"}} {
		if n < g.size {
			continue
		}
		words := englishCardinal(n/g.size) + " " + g.name
		if rest := n % g.size; rest > 0 {
			words += " " + englishCardinal(rest)
		}
		return words
	}
	switch {
	case n < 20:
		return englishOnes[n]
	case n%10 == 0:
		return englishTens[n/10]
	}
	return englishTens[n/10] + "-" + englishOnes[n%10]
}

// englishYear says a number from 1100 to 2099 as years are said.
func englishYear(n int) string {
	century, rest := int64(n/100), int64(n%100)
	switch {
	case n >= 2000 && n < 2010:
		return englishCardinal(int64(n))
	case rest == 0:
		return englishCardinal(century) + " hundred"
	case rest < 10:
		return englishCardinal(century) + " oh " + englishCardinal(rest)
	}
	return englishCardinal(century) + " " + englishCardinal(rest)
}

func (english) ordinal(n int) string {
	words := englishCardinal(int64(n))
	at := strings.LastIndexAny(words, " -") + 1
	last := words[at:]
	switch {
	case englishOrdinals[last] != "":
		last = englishOrdinals[last]
	case strings.HasSuffix(last, "y"):
		last = strings.TrimSuffix(last, "y") + "ieth"
	default:
		last += "th"
	}
	return words[:at] + last
}

func (english) date(year, month, day int) string {
	return englishMonths[month] + " " + english{}.ordinal(day) + ", " + english{}.number(strconv.Itoa(year), "", 0)
}

func (english) clock(hour, minute, second int, noon bool) string {
	words := englishCardinal(int64(hour))
	switch {
	case minute == 0 && second == 0 && noon:
	case minute == 0 && second == 0:
		words += " o'clock"
	case minute < 10:
		words += " oh " + englishCardinal(int64(minute))
	default:
		words += " " + englishCardinal(int64(minute))
	}
	if second > 0 {
		words += " and " + englishAmount(englishCardinal(int64(second)), "second", "seconds")
	}
	return words
}

func englishAmount(number, one, many string) string {
	if number == "one" {
		return number + " " + one
	}
	return number + " " + many
}

func (english) ratio(a, b string) string {
	return english{}.number(a, "", 0) + " to " + english{}.number(b, "", 0)
}

func (english) version(parts []string) string {
	var words []string
	for _, p := range parts {
		words = append(words, english{}.number(p, "", 0))
	}
	return strings.Join(words, " point ")
}

func (english) percent(number string) string { return number + " percent" }

func (english) shares(from, to string) string { return from + " to " + to + " percent" }

func (english) money(whole, fraction, sign string) (string, bool) {
	names, ok := englishMoney[sign]
	n, err := strconv.ParseInt(strings.ReplaceAll(whole, ",", ""), 10, 64)
	if !ok || err != nil {
		return "", false
	}
	words := englishAmount(englishCardinal(n), names[0], names[1])
	switch cents, _ := strconv.ParseInt(fraction, 10, 64); {
	case fraction != "" && len(fraction) != 2:
		words = english{}.number(whole, fraction, 0) + " " + names[1]
	case cents > 0:
		words += " and " + englishCardinal(cents) + " " + names[2]
	}
	return words, true
}

func (english) unit(number, symbol string, _ bool) (string, bool) {
	names, ok := englishUnits[symbol]
	return englishAmount(number, names[0], names[1]), ok
}
