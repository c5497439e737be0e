package spoken

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNumbers(t *testing.T) {
	for lang, cases := range map[string]map[string]string{
		"zh-CN": {
			"今天25.6度，明天-3℃。":                   "今天二十五点六度，明天零下三摄氏度。",
			"湿度45%，风速12 km/h":                  "湿度百分之四十五，风速十二公里每小时",
			"买3-5个，打8折":                        "买三到五个，打八折",
			"涨了3-5%，或3%~5%":                    "涨了百分之三到五，或百分之三到百分之五",
			"2024-05-06到2024/12/31":            "二零二四年五月六日到二零二四年十二月三十一日",
			"2024年5月6日，100年":                   "二零二四年五月六日，一百年",
			"14:30开会，8:05出发，2:00睡，15：00-16:30": "十四点三十分开会，八点零五分出发，两点睡，十五点到十六点三十分",
			"12:00:05":                         "十二点零分零五秒",
			"请打13800138000或010-12345678":       "请打幺三八零零幺三八零零零或零幺零，幺二三四五六七八",
			"热线400-123-4567，+86 138 0013 8000": "热线四零零，幺二三，四五六七，加八六，幺三八，零零幺三，八零零零",
			"版本2.4.2，v1.22":                    "版本二点四点二，v一点二二",
			"192.168.1.1":                      "一百九十二点一百六十八点一点一",
			"比分3:2":                            "比分三比二",
			"2个人，12个，22条，2月2日，2天":              "两个人，十二个，二十二条，二月二日，两天",
			"10，11，20，101，110，1001，1010":       "十，十一，二十，一百零一，一百一十，一千零一，一千零一十",
			"10500，100000，1,234,567，20000000":  "一万零五百，十万，一百二十三万四千五百六十七，二千万",
			"￥2.50，$5，￥1,299.00，3 €":           "二点五元，五美元，一千二百九十九元，三欧元",
			"第3名，No. 007，QQ 123456789":         "第三名，No. 零零七，QQ 一二三四五六七八九",
			"MP3和GPT-4，5G，iPhone15，10kg":       "MP三和GPT-四，五G，iPhone十五，十公斤",
			"-5和3.0":                           "负五和三点零",
			"没有数字":                             "没有数字",
			"3-5":                              "三到五",
			"10-2":                             "十-二",
			"25:99":                            "二十五:九十九",
			"2024-13-45":                       "二千零二十四-十三到四十五",
			"OK, 3-5 pm":                       "OK, three to five pm",
		},
		"en": {
			"It is 25.6 degrees, then -3℃ or 1 °C.": "It is twenty-five point six degrees, then minus three degrees Celsius or one degree Celsius.",
			"Take 3-5, or 10 – 12.":                 "Take three to five, or ten to twelve.",
			"5-10% more, 50% off":                   "five to ten percent more, fifty percent off",
			"At 14:30, 8:05 am, 9:00 and 9:00pm":    "At fourteen thirty, eight oh five am, nine o'clock and nine pm",
			"On 2024-05-06 and 2003/10/22":          "On May sixth, twenty twenty-four and October twenty-second, two thousand three",
			"Go 1.22.1, v2.4.2":                     "Go one point twenty-two point one, v two point four point two",
			"12 km/h, 1 km, 2kg, 3D, 4 ways":        "twelve kilometers per hour, one kilometer, two kilograms, three D, four ways",
			"Call 555-123-4567 or (555) 123-4567":   "Call five five five, one two three, four five six seven or five five five, one two three, four five six seven",
			"+1 555 123 4567":                       "plus one, five five five, one two three, four five six seven",
			"$5, $2.50, $1.5, £1, €1,000":           "five dollars, two dollars and fifty cents, one point five dollars, one pound, one thousand euros",
			"1st, 2nd, 3rd, 12th, 20th, 21st":       "first, second, third, twelfth, twentieth, twenty-first",
			"In 1984 and 1900, 1,984 of 12345":      "In nineteen eighty-four and nineteen hundred, one thousand nine hundred eighty-four of twelve thousand three hundred forty-five",
			"3:2, GPT-4, MP3, 007":                  "three to two, GPT-four, MP three, zero zero seven",
			"0, 10, 15, 99, 100, 1000001":           "zero, ten, fifteen, ninety-nine, one hundred, one million one",
			"今天25度":                                 "今天二十五度",
		},
		"":   {"3-5 days": "three to five days", "３天": "３天", "25日です": "25日です"},
		"de": {"25,6 Grad": "25,6 Grad"},
		"ja": {"25度": "25度"},
	} {
		for text, want := range cases {
			if got := Numbers(text, lang); got != want {
				t.Errorf("%s: %q\n got %q\nwant %q", lang, text, got, want)
			}
		}
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add("2024-05-06 14:30:05 +86 138 0013 8000 2.4.2 -3℃ 3-5% $2.50 1st 3 km/h 99:99 12345678901234567890", "zh")
	f.Add("a1b 1 a 1. 1,234,567.89 0:0 1:2:3 (555) 123-4567 1e9 10-10 5--6", "en")
	f.Fuzz(func(t *testing.T, text, lang string) {
		text = strings.ToValidUTF8(text, "")
		got := Numbers(text, lang)
		if !utf8.ValidString(got) {
			t.Fatalf("%q has become %q", text, got)
		}
		if languageOf(text, lang) != nil && strings.ContainsAny(got, "0123456789") {
			t.Fatalf("%q has become %q", text, got)
		}
		if letters := func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsDigit(r) {
					return r
				}
				return -1
			}, s)
		}; letters(text) == "" && got != text {
			t.Fatalf("%q has become %q", text, got)
		}
	})
}
