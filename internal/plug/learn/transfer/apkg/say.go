package apkg

import "patchbay/internal/talk"

// Errors of a package. They follow [ErrBroken] in the text.
var (
	sayBroken       = talk.Say{Zh: "这个 Anki 包已损坏", En: "this Anki package is damaged"}
	sayWhy          = talk.Say{Zh: "%v：%v", En: "%v: %v"}
	sayNoZIP        = talk.Say{Zh: "它不是 ZIP 文件，或者缺了结尾", En: "it is no ZIP archive, or its end is missing"}
	sayInside       = talk.Say{Zh: "%s：%v", En: "%s: %v"}
	sayLarge        = talk.Say{Zh: "%s 超过 %d MiB", En: "%s is larger than %d MiB"}
	sayElsewhere    = talk.Say{Zh: "它想解压到 %q", En: "it wants to unpack to %q"}
	sayTwice        = talk.Say{Zh: "里面有两个 %s 文件", En: "it has two files %s"}
	sayNoCollection = talk.Say{Zh: "里面没有集合；它是 Anki 导出的文件吗？",
		En: "there is no collection in it; is it a file that Anki exported?"}
	sayContents     = talk.Say{Zh: "它的目录超过 %d MiB", En: "its list of contents is longer than %d MiB"}
	sayNoTable      = talk.Say{Zh: "它没有表 %s", En: "it has no table %s"}
	sayStrangeTable = talk.Say{Zh: "它的表 %s 不是真正的表", En: "its table %s is none"}
	sayTypes        = talk.Say{Zh: "它的笔记类型：%v", En: "its note types: %v"}
	sayDecks        = talk.Say{Zh: "它的牌组：%v", En: "its decks: %v"}
	sayManyTypes    = talk.Say{Zh: "它的笔记类型太多", En: "it has too many note types"}
	sayProto        = talk.Say{Zh: "它的 protobuf 数据读不了", En: "its protobuf cannot be read"}
	sayHours        = talk.Say{Zh: "它的模板和笔记要花几个小时才能显示出来", En: "its templates and notes would take hours to show"}

	sayTooMany = talk.Say{Zh: "这个包里的卡片超过 %d 张", En: "the package has more than %d cards"}
)

// Errors of a card.
var (
	sayNoNote   = talk.Say{Zh: "包里没有它的笔记", En: "its note is missing in the package"}
	sayNoType   = talk.Say{Zh: "包里没有它的笔记类型", En: "its note type is missing in the package"}
	sayOrder    = talk.Say{Zh: "它的序号不可能是这样", En: "its number is impossible"}
	sayLongNote = talk.Say{Zh: "它的笔记超过 4 MiB；图片应该放在 Anki 的媒体里，而不是文字里",
		En: "its note is longer than 4 MiB; pictures belong into Anki's media, not into the text"}
	sayHuge = talk.Say{Zh: "它的模板产生的文字超过 1 MiB，或者处理起来太费力",
		En: "its templates make more than 1 MiB of text, or work too hard for it"}
	sayNoFront = talk.Say{Zh: "它的正面没有文字", En: "it has no words on its front"}
	sayNoBack  = talk.Say{Zh: "它的背面没有文字", En: "it has no words on its back"}
)

// broken returns an error about the whole package.
func broken(s talk.Say, args ...any) error { return sayWhy.Wrong(ErrBroken, s.Wrong(args...)) }
