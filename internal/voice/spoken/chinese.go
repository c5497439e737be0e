package spoken

import (
	"strconv"
	"strings"
)

// chinese is how numbers are said in Mandarin.
type chinese struct{}

const (
	chineseDigits = "零一二三四五六七八九"
	// below is what negative temperatures begin with.
	below = "零下"
	// measures are the words before which 2 is 两.
	measures = "个位只条张本天年次杯瓶块元点小分周倍种件台辆双岁"
)

var chineseUnits = map[string]string{
	"℃": "摄氏度", "°C": "摄氏度", "℉": "华氏度", "°F": "华氏度", "€": "欧元",
	"km/h": "公里每小时", "m/s": "米每秒", "km": "公里", "m": "米", "cm": "厘米", "mm": "毫米",
	"kg": "公斤", "g": "克", "mg": "毫克", "L": "升", "ml": "毫升", "mL": "毫升",
	"GB": "吉字节", "MB": "兆字节", "KB": "千字节", "TB": "太字节",
	"kWh": "千瓦时", "kW": "千瓦", "W": "瓦", "Hz": "赫兹", "kHz": "千赫", "MHz": "兆赫", "GHz": "吉赫",
	"h": "小时", "min": "分钟", "s": "秒", "ms": "毫秒",
}

var chineseMoney = map[string]string{"￥": "元", "¥": "元", "$": "美元", "€": "欧元", "£": "英镑"}

func (chinese) words() (to, minus, space string) { return "到", "负", "" }

func (chinese) digits(text string) string { return chineseByDigit(text, '幺') }

// chineseByDigit says digits one by one, with a word for 1.
func chineseByDigit(text string, one rune) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '+':
			b.WriteString("加")
		case r == '1':
			b.WriteRune(one)
		case r >= '0' && r <= '9':
			b.WriteRune([]rune(chineseDigits)[r-'0'])
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "，"):
			b.WriteString("，")
		}
	}
	return b.String()
}

func (chinese) number(whole, fraction string, next rune) string {
	digits := strings.ReplaceAll(whole, ",", "")
	var words string
	switch {
	case fraction == "" && digits == "2" && strings.ContainsRune(measures, next):
		return "两"
	case next == '年' && len(digits) == 4,
		digits == whole && (len(digits) > maxCardinal || len(digits) > 1 && digits[0] == '0'):
		words = chineseByDigit(digits, '一')
	default:
		words = chineseCardinal(digits)
	}
	if fraction != "" {
		words += "点" + chineseByDigit(fraction, '一')
	}
	return words
}

// chineseCardinal says a number of at most 16 digits.
func chineseCardinal(digits string) string {
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || n >= 1e16:
		return chineseByDigit(digits, '一')
	case n == 0:
		return "零"
	}
	words := chineseGroups(n)
	if strings.HasPrefix(words, "一十") {
		words = words[len("一"):]
	}
	return words
}

// chineseGroups says a number above 0 with all its ones.
func chineseGroups(n int64) string {
	for _, g := range []struct {
		size int64
		name string
	}{{1e8, "亿"}, {1e4, "万"}, {1000, "千"}, {100, "百"}, {10, "十"}} {
		if n < g.size {
			continue
		}
		words := chineseGroups(n/g.size) + g.name
		switch rest := n % g.size; {
		case rest == 0:
		case rest < g.size/10:
			words += "零" + chineseGroups(rest)
		default:
			words += chineseGroups(rest)
		}
		return words
	}
	return string([]rune(chineseDigits)[n])
}

func chineseInt(n int) string { return chineseCardinal(strconv.Itoa(n)) }

func (chinese) date(year, month, day int) string {
	return chineseByDigit(strconv.Itoa(year), '一') + "年" + chineseInt(month) + "月" + chineseInt(day) + "日"
}

func (chinese) clock(hour, minute, second int, _ bool) string {
	words := chineseInt(hour) + "点"
	if hour == 2 {
		words = "两点"
	}
	zero := func(n int) string {
		if n > 0 && n < 10 {
			return "零"
		}
		return ""
	}
	if minute > 0 || second > 0 {
		words += zero(minute) + chineseInt(minute) + "分"
	}
	if second > 0 {
		words += zero(second) + chineseInt(second) + "秒"
	}
	return words
}

func (chinese) ratio(a, b string) string { return chineseCardinal(a) + "比" + chineseCardinal(b) }

func (chinese) version(parts []string) string {
	var words []string
	for _, p := range parts {
		words = append(words, chineseCardinal(p))
	}
	return strings.Join(words, "点")
}

func (chinese) percent(number string) string { return "百分之" + number }

func (chinese) shares(from, to string) string { return "百分之" + from + "到" + to }

func (chinese) ordinal(n int) string { return "第" + chineseInt(n) }

func (chinese) money(whole, fraction, sign string) (string, bool) {
	name, ok := chineseMoney[sign]
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return chinese{}.number(whole, "", '元') + name, ok
	}
	return chinese{}.number(whole, fraction, '元') + name, ok
}

func (chinese) unit(number, symbol string, negative bool) (string, bool) {
	name, ok := chineseUnits[symbol]
	if negative && (symbol == "℃" || symbol == "°C") {
		number = below + number
	}
	return number + name, ok
}
