package learn

import "patchbay/internal/talk"

// Texts of decks.
var (
	sayNewDeck     = talk.Say{Zh: "新牌组", En: "New deck"}
	sayDeckHint    = talk.Say{Zh: "例如“德语”。牌组可以有自己的设置。", En: "Such as “German”. A deck may have settings of its own."}
	sayMakeDeck    = talk.Say{Zh: "创建牌组", En: "Make the deck"}
	sayNeedName    = talk.Say{Zh: "请写名称。", En: "Give it a name."}
	sayNameTooLong = talk.Say{Zh: "名称太长了。", En: "The name is too long."}
	sayTooManyTags = talk.Say{Zh: "最多 %d 个标签，每个最多 %d 字节。", En: "A point has %d tags at most, of %d bytes each."}
	sayDeckThere   = talk.Say{Zh: "已经有牌组“%s”。", En: "There is a deck “%s” already."}
	sayRemoveDeck  = talk.Say{Zh: "删除牌组", En: "Remove the deck"}
	sayRemoveHint  = talk.Say{Zh: "它的知识点会移到默认牌组，复习记录不变。",
		En: "Its points move to the default deck; their history stays."}
	sayRemoveSure  = talk.Say{Zh: "删除牌组“%s”？", En: "Remove the deck “%s”?"}
	saySavingDates = talk.Say{Zh: "正在给知识点换日期：%s / %s", En: "Giving points their new dates: %s of %s"}
)

// Texts of tags.
var (
	sayRename     = talk.Say{Zh: "改名", En: "Rename"}
	sayRenameHint = talk.Say{Zh: "带有这个标签的知识点都会改，回收站里的也会。",
		En: "All points that have this tag get the new one, those in the trash too."}
	sayBadTag   = talk.Say{Zh: "请写一个标签：不带逗号，最多 %d 字节。", En: "Write one tag, without commas, of %d bytes at most."}
	sayTagThere = talk.Say{Zh: "已经有知识点带有标签“%s”（%d 个）。两个标签会合为一个，以后分不开。",
		En: "There are points with the tag “%s” already (%d). The two tags would become one, and could not be told apart again."}
	sayMerge    = talk.Say{Zh: "合并", En: "Merge the two"}
	sayRenaming = talk.Say{Zh: "正在改名：%s / %s", En: "Renaming: %s of %s"}
)

// Texts of the scheduling settings.
var (
	sayHowAgain = talk.Say{Zh: "知识点怎样再来", En: "How points come again"}
	sayAsAll    = talk.Say{Zh: "与全部牌组相同（%s）", En: "as all decks (%s)"}
	sayUsually  = talk.Say{Zh: "通常（%s）", En: "usual (%s)"}
	sayBadRule  = talk.Say{Zh: "“%s”不对：%s", En: "“%s” is not right: %s"}

	saySchedule     = talk.Say{Zh: "复习方法", En: "Schedule"}
	sayScheduleHint = talk.Say{Zh: "换方法会给全部知识点新的日期，记录不变。",
		En: "Another one gives all points new dates and keeps their history."}
	sayFSRS              = talk.Say{Zh: "FSRS：按记得的程度", En: "FSRS: as well as each is remembered"}
	sayClassic           = talk.Say{Zh: "固定课程：1、7、16、35 天后", En: "Fixed course: after 1, 7, 16 and 35 days"}
	sayRetentionWanted   = talk.Say{Zh: "希望记住的比例（%）", En: "Share to be remembered (%)"}
	sayRetentionHint     = talk.Say{Zh: "80 到 97。越高，复习越多。", En: "From 80 to 97. More means more reviews."}
	sayNewPerDay         = talk.Say{Zh: "每天新学", En: "New points a day"}
	sayNewPerDayHint     = talk.Say{Zh: "0 到 9999 的整数。", En: "A whole number from 0 to 9999."}
	sayReviewsPerDay     = talk.Say{Zh: "每天复习", En: "Reviews a day"}
	sayReviewsPerDayHint = talk.Say{Zh: "0 到 9999 的整数；多出的留到第二天。",
		En: "A whole number from 0 to 9999; the rest waits for the next day."}
	saySteps     = talk.Say{Zh: "新知识点的步骤（分钟）", En: "Steps of new points (minutes)"}
	sayStepsHint = talk.Say{Zh: "例如 1, 10：第一次之后过 1 分钟、再过 10 分钟。“-”表示没有。",
		En: "Such as 1, 10: after the first time it comes again in 1 minute, then in 10. “-” is none."}
	sayRelearn         = talk.Say{Zh: "忘记后的步骤（分钟）", En: "Steps after forgetting (minutes)"}
	sayRelearnHint     = talk.Say{Zh: "例如 10。“-”表示没有。", En: "Such as 10. “-” is none."}
	sayMaxInterval     = talk.Say{Zh: "最长间隔（天）", En: "Longest interval (days)"}
	sayMaxIntervalHint = talk.Say{Zh: "1 到 36500。", En: "From 1 to 36500."}
	sayLeechAfter      = talk.Say{Zh: "忘记多少次算“总是忘记”", En: "Forgotten how often is “again and again”"}
	sayLeechHint       = talk.Say{Zh: "到这个次数会加上标签 leech；0 表示从不。",
		En: "Then the point gets the tag leech; 0 is never."}
	sayLeechSuspend     = talk.Say{Zh: "总是忘记的先暂停", En: "Let those rest"}
	sayLeechSuspendHint = talk.Say{Zh: "暂停的不出现，直到你取消。", En: "What rests is not asked until you wake it."}
	sayBury             = talk.Say{Zh: "互相透露答案的不在同一天", En: "Keep points that give each other away from one day"}
	sayBuryHint         = talk.Say{Zh: "例如同一条 Anki 笔记的两张卡片。", En: "Such as two cards of one Anki note."}
	sayBalance          = talk.Say{Zh: "把日期分散开", En: "Even the days out"}
	sayBalanceHint      = talk.Say{Zh: "间隔移动百分之几，让每天差不多。",
		En: "Intervals move by a few percent, to days with less to do."}
	sayWeights     = talk.Say{Zh: "FSRS 参数", En: "FSRS parameters"}
	sayWeightsHint = talk.Say{Zh: "21 个数字，用逗号分开；空着就用公开的参数。",
		En: "21 numbers with commas; empty: the published ones."}
	sayEasyDays     = talk.Say{Zh: "轻松的日子，以及专家设置", En: "Easy days, and a setting for experts"}
	sayEasyDaysHint = talk.Say{Zh: "每个星期几做平常的百分之几，0 到 100。",
		En: "How much of a usual day may fall on each, from 0 to 100 percent."}
	sayMonday    = talk.Say{Zh: "星期一", En: "Monday"}
	sayTuesday   = talk.Say{Zh: "星期二", En: "Tuesday"}
	sayWednesday = talk.Say{Zh: "星期三", En: "Wednesday"}
	sayThursday  = talk.Say{Zh: "星期四", En: "Thursday"}
	sayFriday    = talk.Say{Zh: "星期五", En: "Friday"}
	saySaturday  = talk.Say{Zh: "星期六", En: "Saturday"}
	saySunday    = talk.Say{Zh: "星期日", En: "Sunday"}
)

// Texts of a person's settings.
var (
	saySettingsOf = talk.Say{Zh: "学习设置", En: "Settings of Learn"}
	sayYourDay    = talk.Say{Zh: "你的一天", En: "Your day"}
	sayZone       = talk.Say{Zh: "时区", En: "Time zone"}
	sayZoneHint   = talk.Say{Zh: "例如 Asia/Shanghai。现在是 %s。", En: "Such as Asia/Shanghai. It is %s there now."}
	sayNoZone     = talk.Say{Zh: "没有时区“%s”，请写成 Asia/Shanghai 或 Europe/Berlin 这样。",
		En: "There is no time zone “%s”; write it like Asia/Shanghai or Europe/Berlin."}
	sayZoneOfBrowser = talk.Say{Zh: "用这个浏览器的时区", En: "Take that of this browser"}
	sayCalendarHint  = talk.Say{Zh: "日历：在日历程序里订阅 %s，用户名随意，密码是一个密钥。",
		En: "The calendar: have your calendar program subscribe to %s, with any name and a key as the password."}
	sayKeys         = talk.Say{Zh: "密钥", En: "Keys"}
	sayDayStart     = talk.Say{Zh: "一天开始于", En: "The day begins at"}
	sayDayStartHint = talk.Say{Zh: "空着是 04:00：半夜学的算前一天。",
		En: "Empty: 04:00. Who learns after midnight learns for the day before."}

	sayReminder    = talk.Say{Zh: "提醒", En: "Reminder"}
	sayRemindAt    = talk.Say{Zh: "每天提醒的时间", En: "Remind me each day at"}
	sayRemindHint  = talk.Say{Zh: "有到期的才提醒；空着就不提醒。", En: "Only if something is due; empty: never."}
	sayRemindVia   = talk.Say{Zh: "怎样提醒", En: "How"}
	sayByGlasses   = talk.Say{Zh: "在眼镜上", En: "On the glasses"}
	sayByWebhook   = talk.Say{Zh: "发到一个网址", En: "By a message to an address"}
	sayByCalendar  = talk.Say{Zh: "在日历里", En: "In the calendar"}
	sayWebhook     = talk.Say{Zh: "网址", En: "Address"}
	sayWebhookHint = talk.Say{Zh: "有到期的时候，会向它发一个 JSON 的 POST。", En: "It gets a POST with JSON when something is due."}
	sayBadWebhook  = talk.Say{Zh: "网址要以 https:// 或 http:// 开头。", En: "The address must begin with https:// or http://."}
	sayNeedWebhook = talk.Say{Zh: "请写要发到的网址。", En: "Give the address that the message goes to."}

	sayJudging      = talk.Say{Zh: "评判", En: "Judging"}
	sayJudgeBot     = talk.Say{Zh: "由哪个机器人评判", En: "The bot that judges"}
	sayJudgeBotHint = talk.Say{Zh: "它看到问题、答案和你想起的内容。", En: "It is told the question, the answer and what you recalled."}
	sayFirstModel   = talk.Say{Zh: "第一个模型", En: "The first model there is"}
	sayNobody       = talk.Say{Zh: "不用模型，只比对文字", En: "None: compare the words only"}
	sayStrictness   = talk.Say{Zh: "有多严", En: "How strictly"}
	sayNormal       = talk.Say{Zh: "一般", En: "Normally"}
	sayLenient      = talk.Say{Zh: "宽松：大意就够", En: "Leniently: the gist is enough"}
	sayStrict       = talk.Say{Zh: "严格：每个事实都算", En: "Strictly: every fact counts"}
)

// Texts of imports and exports.
var (
	sayImportTold = talk.Say{Zh: "整个文件要么全部导入，要么都不导入。以前导入过的会认出来：文字更新，复习记录不变。",
		En: "All of a file is imported, or nothing. What was imported before is known again: its text is renewed, and its history stays."}
	sayFile     = talk.Say{Zh: "文件", En: "File"}
	sayFileHint = talk.Say{Zh: "Anki（.apkg）、CSV、Markdown 或 JSON，最大 %d MiB。",
		En: "Anki (.apkg), CSV, Markdown or JSON, up to %d MiB."}
	sayFormat         = talk.Say{Zh: "格式", En: "Format"}
	sayFindOut        = talk.Say{Zh: "自动识别", En: "Found out by itself"}
	sayFormatCSV      = talk.Say{Zh: "表格（CSV、TSV）", En: "Spreadsheet (CSV, TSV)"}
	sayFormatAnki     = talk.Say{Zh: "Anki 牌组包（apkg）", En: "Anki package (apkg)"}
	sayFormatMarkdown = talk.Say{Zh: "Markdown", En: "Markdown"}
	sayFormatJSON     = talk.Say{Zh: "Patchbay 的 JSON（不丢任何内容）", En: "JSON of Patchbay (loses nothing)"}
	sayFormatRows     = talk.Say{Zh: "原服务的数据行", En: "Rows of the original service"}
	sayIntoDeck       = talk.Say{Zh: "放进牌组", En: "Into the deck"}
	sayIntoDeckHint   = talk.Say{Zh: "用于没有写明牌组的；没有这个牌组就会创建。",
		En: "For points that name none; it is made if it does not exist."}
	sayDryRun        = talk.Say{Zh: "只看看会怎样", En: "Only say what would happen"}
	saySkipBad       = talk.Say{Zh: "跳过有问题的行", En: "Leave out rows in which something is wrong"}
	sayImportIt      = talk.Say{Zh: "导入文件", En: "Import the file"}
	sayUploading     = talk.Say{Zh: "正在上传，请别离开这一页……", En: "Sending the file; stay on this page…"}
	sayReadingFile   = talk.Say{Zh: "正在读取：%d%%", En: "Reading: %d%%"}
	sayWritingPoints = talk.Say{Zh: "正在写入……", En: "Writing the points…"}
	sayImportBusy    = talk.Say{Zh: "正在导入别的文件，请稍后再试。", En: "Other files are being imported; try again in a moment."}
	sayNoFile        = talk.Say{Zh: "请选一个有内容的文件。", En: "Choose a file that has something in it."}
	sayFileTooLarge  = talk.Say{Zh: "文件超过 %d MiB（设置 learn.import_size）。",
		En: "The file is larger than %d MiB (setting learn.import_size)."}
	sayBrokeOff     = talk.Say{Zh: "文件没有传完，请再试一次。", En: "The file broke off; try again."}
	sayTooManyItems = talk.Say{Zh: "文件里的条目超过 %d 个，请拆开。", En: "The file has more than %d items; split it."}
	sayNoFormat     = talk.Say{Zh: "没有这种格式。", En: "There is no such format."}
	sayUnreadable   = talk.Say{Zh: "这个文件读不了：%s", En: "The file cannot be read: %s"}

	sayImported    = talk.Say{Zh: "已导入：新增 %d，更改 %d，未变 %d。", En: "Imported: %d added, %d changed, %d as they were."}
	sayWouldImport = talk.Say{Zh: "将会导入：新增 %d，更改 %d，未变 %d。",
		En: "It would import: %d added, %d changed, %d as they were."}
	sayNothingImported = talk.Say{Zh: "什么都没有导入：有 %d 处问题。请改好，或者跳过它们。",
		En: "Nothing was imported, as something is wrong in %d places. Mend them, or leave them out."}
	sayNewDecks = talk.Say{Zh: "新的牌组：%s", En: "New decks: %s"}
	sayBadRows  = talk.Say{Zh: "有问题的行（%d）", En: "Rows in which something is wrong (%d)"}
	sayRow      = talk.Say{Zh: "第 %d 行", En: "Row %d"}
	sayMoreBad  = talk.Say{Zh: "……另有 %d 处。", En: "… and %d more."}

	sayExport     = talk.Say{Zh: "导出", En: "Export"}
	sayExportHint = talk.Say{Zh: "JSON 带有全部内容，CSV 和 Markdown 不带复习记录。",
		En: "JSON has everything; CSV and Markdown have no history of reviews."}
	sayDownload = talk.Say{Zh: "下载", En: "Download"}
)

// Texts of statistics.
var (
	sayForecast     = talk.Say{Zh: "接下来的复习", En: "What is to come"}
	sayForecastTold = talk.Say{Zh: "接下来 %d 天共到期 %d 个；第一天包括已经过期的。",
		En: "The next %d days, %d reviews in all; the first has what is overdue, too."}
	sayReviewsChart   = talk.Say{Zh: "每天的复习", En: "Reviews a day"}
	sayReviewsTold    = talk.Say{Zh: "最近 %d 天共复习 %d 次。", En: "The last %d days, %d reviews in all."}
	sayRetentionChart = talk.Say{Zh: "记住的比例", En: "What was remembered"}
	sayRetentionTold  = talk.Say{Zh: "到期再来的知识点里，每周还记得的比例。",
		En: "Of points that came back on their day, the share still known, by week."}
	sayRecalled30  = talk.Say{Zh: "30 天内记住的", En: "remembered in 30 days"}
	sayRecalled    = talk.Say{Zh: "记住", En: "Remembered"}
	sayRecalledOf  = talk.Say{Zh: "%s（共 %d）", En: "%s of %d"}
	sayDay         = talk.Say{Zh: "日期", En: "Day"}
	sayWeekFrom    = talk.Say{Zh: "周（起）", En: "Week from"}
	sayReviewsHead = talk.Say{Zh: "次数", En: "Reviews"}
	sayByState     = talk.Say{Zh: "知识点的状态", En: "Points by state"}
	sayKnown       = talk.Say{Zh: "按天复习", En: "Reviewed days apart"}
	sayAside       = talk.Say{Zh: "不复习（暂停、草稿、已完成）", En: "Not reviewed (resting, drafts, completed)"}
	sayAsTable     = talk.Say{Zh: "看表格", En: "As a table"}
	sayNoStats     = talk.Say{Zh: "复习几天之后，这里会有更多图表。", En: "After some days of reviews there is more to see here."}
)
