/*
 * The chat widget for web pages (spec http-api §12, web-ui §15): one script tag puts a bubble on any page.
 *
 * Plain ES2019 that is served without a build step. Before it is sent, the server replaces the five placeholders of
 * CONFIG, each of which occurs once and is the whole of a double-quoted string; what it puts there is escaped for
 * such a string. Text from the server or the visitor reaches the page by text nodes and checked attributes only,
 * never as markup.
 */
(function () {
    "use strict";

    const CONFIG = {
        siteKey: "__LANGBOT_TURNSTILE_SITE_KEY__",
        bot: "__LANGBOT_BOT_UUID__",
        base: "__LANGBOT_BASE_URL__",
        locale: "__LANGBOT_LOCALE__",
        icon: "__LANGBOT_BUBBLE_ICON__",
    };
    const ROOT_ID = "langbot-widget-root";
    const LOADED = "langbotWidgetLoaded";
    if (window[LOADED] || document.getElementById(ROOT_ID)) return;
    window[LOADED] = true;

    const API = CONFIG.base.replace(/\/+$/, "") + "/api/v1/embed/";
    const BOT_API = API + encodeURIComponent(CONFIG.bot);
    const SESSION_KEY = "langbot_embed_session_" + CONFIG.bot;
    const PING_MS = 30000;
    const RECONNECT_MS = 3000;
    const RECONNECT_TRIES = 5;
    const ANSWER_MS = 180000; /* how long the three dots are shown without a sign of an answer */
    const IMAGE_BYTES = 5 * 1024 * 1024; /* of all images of one message together */
    const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    const LIKE = 1, DISLIKE = 2, CANCEL = 3;

    const TEXTS = {
        en_US: {
            open: "Open chat", close: "Close chat", input: "Type a message", send: "Send", attach: "Add an image",
            removeImage: "Remove image", reset: "Start a new conversation", resetAsk: "Forget this conversation?",
            yes: "Forget it", no: "Keep it", resetDone: "A new conversation has begun.", copy: "Copy", copied: "Copied",
            like: "Good answer", dislike: "Bad answer", connecting: "Connecting…", online: "Online",
            retrying: "Connection lost, trying again…", offline: "Not connected", reconnect: "Connect again",
            tooLarge: "Images may have 5 MiB in all.", onlyImages: "Only PNG, JPEG, GIF and WebP images can be sent.",
            verify: "Please confirm that you are human.", verifyFailed: "The check failed. Please try again.",
            retry: "Try again", empty: "How can I help you?", image: "Image", file: "File", typing: "Writing an answer",
            notSent: "Not sent", failed: "That did not work. Please try again.", you: "You", messages: "Messages",
        },
        zh_Hans: {
            open: "打开聊天", close: "关闭聊天", input: "输入消息", send: "发送", attach: "添加图片",
            removeImage: "移除图片", reset: "开始新的对话", resetAsk: "要清除本次对话吗？",
            yes: "清除", no: "保留", resetDone: "新的对话已开始。", copy: "复制", copied: "已复制",
            like: "回答得好", dislike: "回答得不好", connecting: "正在连接…", online: "在线",
            retrying: "连接已断开，正在重试…", offline: "未连接", reconnect: "重新连接",
            tooLarge: "图片总大小不能超过 5 MiB。", onlyImages: "只能发送 PNG、JPEG、GIF 和 WebP 图片。",
            verify: "请完成人机验证。", verifyFailed: "验证失败，请重试。",
            retry: "重试", empty: "有什么可以帮您？", image: "图片", file: "文件", typing: "正在回答",
            notSent: "未发送", failed: "操作失败，请重试。", you: "您", messages: "消息",
        },
        zh_Hant: {
            open: "開啟聊天", close: "關閉聊天", input: "輸入訊息", send: "傳送", attach: "加入圖片",
            removeImage: "移除圖片", reset: "開始新的對話", resetAsk: "要清除這次對話嗎？",
            yes: "清除", no: "保留", resetDone: "新的對話已開始。", copy: "複製", copied: "已複製",
            like: "回答得好", dislike: "回答得不好", connecting: "正在連線…", online: "線上",
            retrying: "連線已中斷，正在重試…", offline: "未連線", reconnect: "重新連線",
            tooLarge: "圖片總大小不能超過 5 MiB。", onlyImages: "只能傳送 PNG、JPEG、GIF 和 WebP 圖片。",
            verify: "請完成真人驗證。", verifyFailed: "驗證失敗，請重試。",
            retry: "重試", empty: "有什麼可以幫您？", image: "圖片", file: "檔案", typing: "正在回答",
            notSent: "未傳送", failed: "操作失敗，請重試。", you: "您", messages: "訊息",
        },
        ja_JP: {
            open: "チャットを開く", close: "チャットを閉じる", input: "メッセージを入力", send: "送信", attach: "画像を追加",
            removeImage: "画像を外す", reset: "新しい会話を始める", resetAsk: "この会話を消去しますか？",
            yes: "消去する", no: "残す", resetDone: "新しい会話を始めました。", copy: "コピー", copied: "コピーしました",
            like: "良い回答", dislike: "良くない回答", connecting: "接続中…", online: "オンライン",
            retrying: "接続が切れました。再接続中…", offline: "未接続", reconnect: "再接続",
            tooLarge: "画像は合計 5 MiB までです。", onlyImages: "送信できる画像は PNG、JPEG、GIF、WebP だけです。",
            verify: "人間であることを確認してください。", verifyFailed: "確認に失敗しました。もう一度お試しください。",
            retry: "再試行", empty: "ご用件をどうぞ。", image: "画像", file: "ファイル", typing: "回答を作成中",
            notSent: "未送信", failed: "失敗しました。もう一度お試しください。", you: "あなた", messages: "メッセージ",
        },
        es_ES: {
            open: "Abrir el chat", close: "Cerrar el chat", input: "Escriba un mensaje", send: "Enviar",
            attach: "Añadir una imagen", removeImage: "Quitar la imagen", reset: "Empezar otra conversación",
            resetAsk: "¿Olvidar esta conversación?", yes: "Olvidarla", no: "Conservarla",
            resetDone: "Ha empezado otra conversación.", copy: "Copiar", copied: "Copiado", like: "Buena respuesta",
            dislike: "Mala respuesta", connecting: "Conectando…", online: "En línea",
            retrying: "Conexión perdida, reintentando…", offline: "Sin conexión", reconnect: "Volver a conectar",
            tooLarge: "Las imágenes pueden sumar 5 MiB.", onlyImages: "Solo se admiten imágenes PNG, JPEG, GIF y WebP.",
            verify: "Confirme que es una persona.", verifyFailed: "La comprobación falló. Inténtelo de nuevo.",
            retry: "Reintentar", empty: "¿En qué puedo ayudarle?", image: "Imagen", file: "Archivo",
            typing: "Escribiendo la respuesta", notSent: "No enviado", failed: "No se pudo. Inténtelo de nuevo.",
            you: "Usted", messages: "Mensajes",
        },
        ru_RU: {
            open: "Открыть чат", close: "Закрыть чат", input: "Введите сообщение", send: "Отправить",
            attach: "Добавить изображение", removeImage: "Убрать изображение", reset: "Начать новый диалог",
            resetAsk: "Забыть этот диалог?", yes: "Забыть", no: "Оставить", resetDone: "Начат новый диалог.",
            copy: "Копировать", copied: "Скопировано", like: "Хороший ответ", dislike: "Плохой ответ",
            connecting: "Подключение…", online: "В сети", retrying: "Связь потеряна, повторяем…",
            offline: "Нет связи", reconnect: "Подключиться снова", tooLarge: "Изображения — не более 5 МиБ в сумме.",
            onlyImages: "Можно отправлять только PNG, JPEG, GIF и WebP.", verify: "Подтвердите, что вы человек.",
            verifyFailed: "Проверка не пройдена. Попробуйте ещё раз.", retry: "Повторить", empty: "Чем могу помочь?",
            image: "Изображение", file: "Файл", typing: "Пишет ответ", notSent: "Не отправлено",
            failed: "Не получилось. Попробуйте ещё раз.", you: "Вы", messages: "Сообщения",
        },
        th_TH: {
            open: "เปิดแชต", close: "ปิดแชต", input: "พิมพ์ข้อความ", send: "ส่ง", attach: "เพิ่มรูปภาพ",
            removeImage: "นำรูปภาพออก", reset: "เริ่มบทสนทนาใหม่", resetAsk: "ลบบทสนทนานี้หรือไม่",
            yes: "ลบ", no: "เก็บไว้", resetDone: "เริ่มบทสนทนาใหม่แล้ว", copy: "คัดลอก", copied: "คัดลอกแล้ว",
            like: "คำตอบดี", dislike: "คำตอบไม่ดี", connecting: "กำลังเชื่อมต่อ…", online: "ออนไลน์",
            retrying: "การเชื่อมต่อขาด กำลังลองใหม่…", offline: "ไม่ได้เชื่อมต่อ", reconnect: "เชื่อมต่ออีกครั้ง",
            tooLarge: "รูปภาพรวมกันได้ไม่เกิน 5 MiB", onlyImages: "ส่งได้เฉพาะรูป PNG, JPEG, GIF และ WebP",
            verify: "โปรดยืนยันว่าคุณเป็นมนุษย์", verifyFailed: "การตรวจสอบไม่ผ่าน โปรดลองอีกครั้ง",
            retry: "ลองอีกครั้ง", empty: "มีอะไรให้ช่วยไหม", image: "รูปภาพ", file: "ไฟล์", typing: "กำลังเขียนคำตอบ",
            notSent: "ยังไม่ได้ส่ง", failed: "ไม่สำเร็จ โปรดลองอีกครั้ง", you: "คุณ", messages: "ข้อความ",
        },
        vi_VN: {
            open: "Mở trò chuyện", close: "Đóng trò chuyện", input: "Nhập tin nhắn", send: "Gửi", attach: "Thêm ảnh",
            removeImage: "Bỏ ảnh", reset: "Bắt đầu hội thoại mới", resetAsk: "Xóa hội thoại này?",
            yes: "Xóa", no: "Giữ lại", resetDone: "Hội thoại mới đã bắt đầu.", copy: "Sao chép", copied: "Đã sao chép",
            like: "Trả lời tốt", dislike: "Trả lời chưa tốt", connecting: "Đang kết nối…", online: "Trực tuyến",
            retrying: "Mất kết nối, đang thử lại…", offline: "Chưa kết nối", reconnect: "Kết nối lại",
            tooLarge: "Tổng dung lượng ảnh tối đa 5 MiB.", onlyImages: "Chỉ gửi được ảnh PNG, JPEG, GIF và WebP.",
            verify: "Vui lòng xác nhận bạn là con người.", verifyFailed: "Kiểm tra không thành công. Vui lòng thử lại.",
            retry: "Thử lại", empty: "Tôi có thể giúp gì cho bạn?", image: "Ảnh", file: "Tệp",
            typing: "Đang viết câu trả lời", notSent: "Chưa gửi", failed: "Không thành công. Vui lòng thử lại.",
            you: "Bạn", messages: "Tin nhắn",
        },
    };
    const LOCALE = Object.prototype.hasOwnProperty.call(TEXTS, CONFIG.locale) ? CONFIG.locale : "en_US";
    const T = TEXTS[LOCALE];

    /* Drawings on a field of 24 by 24, as strokes. */
    const ICONS = {
        chat: "M4 5h16a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-8l-5 4v-4H4a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1zM8 9.500h8M8 13h5",
        robot: "M6 9h12a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2v-7a2 2 0 0 1 2-2zM12 9V4M9 13v2M15 13v2M1.500 13v3M22.500 13v3",
        headset: "M4 14v-2a8 8 0 0 1 16 0v2M4 14h3v5H5a1 1 0 0 1-1-1zM20 14h-3v5h2a1 1 0 0 0 1-1zM18 19c0 2-2 2.500-5 2.500",
        sparkle: "M11 4l1.800 5.200L18 11l-5.200 1.800L11 18l-1.800-5.200L4 11l5.200-1.800zM19 2.500v4M17 4.500h4M19 17v4M17 19h4",
        message: "M3 5h18v14H3zM3.500 6L12 13l8.500-7",
        close: "M6 6l12 12M18 6L6 18",
        send: "M12 19V5M6 11l6-6 6 6",
        attach: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9v.01",
        reset: "M4.500 12a7.500 7.500 0 1 0 2.300-5.400M4 4v4h4",
        copy: "M9 9h11v11H9zM5 15H4V4h11v1",
        done: "M5 12.500l4.500 4.500L19 7.500",
        like: "M7 11v9H4v-9zM7 11l4-8c1.500 0 2.500 1 2.500 2.500V9H19a1.500 1.500 0 0 1 1.500 1.800l-1.400 7.600A2 2 0 0 1 17 20H7",
        dislike: "M7 13V4H4v9zM7 13l4 8c1.500 0 2.500-1 2.500-2.500V15H19a1.500 1.500 0 0 0 1.500-1.800l-1.400-7.600A2 2 0 0 0 17 4H7",
    };

    const STYLE = `
:host { all: initial; --blue: #2563eb; --blue-dark: #1d4ed8; --on-blue: #fff; --bg: #fff; --fg: #1f2937; --soft: #f1f5f9;
  --line: #e2e8f0; --dim: #556274; --code: #f8fafc; --bad: #b91c1c; --shadow: 0 12px 40px rgba(15, 23, 42, .22); }
@media (prefers-color-scheme: dark) { :host { --blue-dark: #3b82f6; --bg: #111827; --fg: #e5e7eb; --soft: #1f2937;
  --line: #334155; --dim: #94a3b8; --code: #0b1220; --bad: #f87171; --shadow: 0 12px 40px rgba(0, 0, 0, .6); } }
* { box-sizing: border-box; }
.frame { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; color: var(--fg);
  color-scheme: light dark; text-align: start; }
button { font: inherit; color: inherit; background: none; border: 0; margin: 0; padding: 6px; border-radius: 8px; cursor: pointer;
  display: inline-flex; align-items: center; justify-content: center; }
button:disabled { opacity: .45; cursor: default; }
button:focus-visible, textarea:focus-visible, a:focus-visible { outline: 2px solid var(--blue-dark); outline-offset: 2px; }
svg { width: 20px; height: 20px; fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round;
  display: block; }
[hidden] { display: none !important; }
.spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.bubble { position: fixed; right: 20px; bottom: 20px; width: 56px; height: 56px; border-radius: 50%; background: var(--blue);
  color: var(--on-blue); box-shadow: 0 6px 20px rgba(37, 99, 235, .45); z-index: 2147483000; padding: 0; }
.bubble:hover { background: #1d4ed8; }
.bubble svg { width: 28px; height: 28px; }
.bubble img { width: 34px; height: 34px; border-radius: 8px; }
.dot { position: absolute; top: 2px; right: 2px; width: 14px; height: 14px; border-radius: 50%; background: #ef4444;
  border: 2px solid #fff; }
.panel { position: fixed; right: 20px; bottom: 88px; width: 380px; height: min(620px, calc(100vh - 108px)); z-index: 2147483000;
  display: flex; flex-direction: column; background: var(--bg); border: 1px solid var(--line); border-radius: 16px;
  box-shadow: var(--shadow); overflow: hidden; }
.head { display: flex; align-items: center; gap: 8px; padding: 10px 12px; border-bottom: 1px solid var(--line); }
.head img { width: 32px; height: 32px; border-radius: 8px; }
.names { flex: 1; min-width: 0; }
.title { font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.state { font-size: 12px; color: var(--dim); }
.head button { color: var(--dim); }
.head button:hover:not(:disabled), .tools button:hover { background: var(--soft); color: var(--fg); }
.list { flex: 1; overflow-y: auto; padding: 14px 12px; display: flex; flex-direction: column; gap: 10px; overscroll-behavior: contain; }
.empty { margin: auto; color: var(--dim); text-align: center; }
.item { position: relative; display: flex; flex-direction: column; align-items: flex-start; max-width: 100%; }
.item.user { align-items: flex-end; }
.text { max-width: 92%; padding: 8px 12px; border-radius: 14px; background: var(--soft); overflow-wrap: anywhere; }
.user .text { background: var(--blue); color: var(--on-blue); white-space: pre-wrap; max-width: 86%; }
.text > :first-child { margin-top: 0; } .text > :last-child { margin-bottom: 0; }
.text p, .text ul, .text ol, .text blockquote, .text pre, .text table { margin: 0 0 8px; }
.text h1, .text h2, .text h3, .text h4, .text h5, .text h6 { font-size: 1em; line-height: 1.4; margin: 12px 0 6px; font-weight: 700; }
.text h1 { font-size: 1.2em; } .text h2 { font-size: 1.1em; }
.text ul, .text ol { padding-inline-start: 22px; } .text li > p, .text li > ul, .text li > ol { margin: 0; }
.text blockquote { padding-inline-start: 10px; border-inline-start: 3px solid var(--line); color: var(--dim); }
.text code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--code); border-radius: 4px;
  padding: 1px 4px; }
.text pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: 8px 10px; overflow-x: auto; }
.text pre code { padding: 0; background: none; white-space: pre; }
.text a { color: var(--blue-dark); } .user .text a { color: inherit; }
.text hr { border: 0; border-top: 1px solid var(--line); margin: 10px 0; }
.scroll { overflow-x: auto; } .text table { border-collapse: collapse; font-size: .93em; }
.text th, .text td { border: 1px solid var(--line); padding: 3px 8px; text-align: start; }
.text img { display: block; max-width: 100%; max-height: 320px; border-radius: 8px; margin: 4px 0; }
.text audio { max-width: 100%; display: block; }
.tools { display: flex; gap: 2px; margin-top: 2px; } .tools button { padding: 4px; color: var(--dim); }
.tools svg { width: 16px; height: 16px; } .tools [aria-pressed=true] { color: var(--blue-dark); }
.mark { font-size: 12px; color: var(--bad); }
.dots { display: inline-flex; gap: 4px; padding: 12px; border-radius: 14px; background: var(--soft); }
.dots i { width: 7px; height: 7px; border-radius: 50%; background: var(--dim); animation: blink 1.2s infinite; }
.dots i:nth-child(2) { animation-delay: .2s; } .dots i:nth-child(3) { animation-delay: .4s; }
@keyframes blink { 0%, 80%, 100% { opacity: .25; } 40% { opacity: 1; } }
.notice { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; padding: 8px 12px; font-size: 13px; background: var(--soft);
  border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.notice span { flex: 1; min-width: 120px; } .notice button { padding: 3px 10px; border: 1px solid var(--line); background: var(--bg); }
.check { padding: 12px; border-top: 1px solid var(--line); display: flex; flex-direction: column; gap: 8px; align-items: center; }
.images { display: flex; flex-wrap: wrap; gap: 8px; padding: 8px 12px 0; }
.thumb { position: relative; } .thumb img { width: 56px; height: 56px; object-fit: cover; border-radius: 8px; display: block; }
.thumb button { position: absolute; top: -6px; right: -6px; padding: 2px; border-radius: 50%; background: var(--fg); color: var(--bg); }
.thumb svg { width: 12px; height: 12px; }
.write { display: flex; align-items: flex-end; gap: 6px; padding: 10px 12px; border-top: 1px solid var(--line); }
.write textarea { flex: 1; min-width: 0; font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--line);
  border-radius: 10px; padding: 7px 10px; resize: none; height: 38px; max-height: 130px; }
.write textarea::placeholder { color: var(--dim); }
.write button { width: 38px; height: 38px; color: var(--dim); } .write .send { background: var(--blue); color: var(--on-blue); }
@media (max-width: 480px) { .panel { inset: 0; width: 100%; height: 100%; border: 0; border-radius: 0; }
  @supports (height: 100dvh) { .panel { height: 100dvh; } } .opened .bubble { display: none; }
  .write textarea { font-size: 16px; } }
@media (prefers-reduced-motion: reduce) { .dots i { animation: none; opacity: .6; } }
`;

    /* ---- building the page ------------------------------------------------------------------------------------- */

    /* An element with attributes (functions become listeners, null and false are left out) and children (texts or nodes). */
    function h(tag, attributes, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes || {})) {
            if (typeof value === "function") element.addEventListener(name, value);
            else if (value !== null && value !== undefined && value !== false)
                element.setAttribute(name, value === true ? "" : value);
        }
        element.append(...children.filter((child) => child !== null && child !== undefined));
        return element;
    }

    function icon(name) {
        const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        svg.setAttribute("viewBox", "0 0 24 24");
        svg.setAttribute("aria-hidden", "true");
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        path.setAttribute("d", ICONS[name]);
        svg.append(path);
        return svg;
    }

    function button(name, label, onclick, attributes) {
        return h("button", { type: "button", "aria-label": label, title: label, click: onclick, ...attributes }, icon(name));
    }

    /* The address if a link to it may be made, else null. */
    function safeUrl(text, schemes) {
        try {
            const url = new URL(String(text).trim());
            return schemes.includes(url.protocol) ? url.href : null;
        } catch (e) {
            return null;
        }
    }
    const LINK = { target: "_blank", rel: "noopener noreferrer nofollow" };
    const linkUrl = (text) => safeUrl(text, ["http:", "https:", "mailto:"]);
    const webUrl = (text) => safeUrl(text, ["http:", "https:"]);

    /* What a media component shows: its data URI of the wanted kind, or its web address; null if neither is there. */
    function mediaUrl(part, kind) {
        let data = typeof part.base64 === "string" ? part.base64 : "";
        if (data && !data.startsWith("data:") && kind === "image") data = "data:image/png;base64," + data;
        if (data.startsWith("data:") && (kind === "" || data.startsWith("data:" + kind + "/"))) return data;
        return part.url ? webUrl(part.url) : null;
    }

    function imageElement(src, alt) {
        return h("img", { src, alt: alt || T.image, loading: "lazy", referrerpolicy: "no-referrer" });
    }

    /* ---- Markdown: the part that models write, as nodes ---------------------------------------------------------- */

    const FENCE = /^ {0,3}(`{3,}|~{3,})/;
    const HEADING = /^ {0,3}(#{1,6})\s+(\S.*)$/;
    const RULE = /^ {0,3}(?:-[- ]*-[- ]*-|\*[* ]*\*[* ]*\*|_[_ ]*_[_ ]*_)\s*$/;
    const ENTRY = /^( *)([-*+]|\d{1,9}[.)])\s+(\S.*)?$/;
    const TABLE_LINE = /^[\s|:-]*-[\s|:-]*$/;
    const TOKEN = /`+|\*\*|__|~~|[*_]|!?\[|https?:\/\/|\\[!-/:-@[-`{-~]/g;
    const ADDRESS = /^[^\s<>"'`（）【】「」，。；]+/;
    const MAX_DEPTH = 8;
    const WORD = /[\p{L}\p{N}]/u;

    function startsBlock(line) {
        return FENCE.test(line) || HEADING.test(line) || ENTRY.test(line) || /^ {0,3}>/.test(line) ||
            (line.length < 200 && RULE.test(line));
    }

    function blocks(parent, lines, depth) {
        let at = 0;
        while (at < lines.length) {
            const line = lines[at];
            const fence = FENCE.exec(line);
            const heading = HEADING.exec(line);
            if (!line.trim()) {
                at++;
            } else if (fence) {
                const closes = (l) => l.trim().startsWith(fence[1]) && !l.trim().slice(fence[1].length).trim();
                let stop = at + 1;
                while (stop < lines.length && !closes(lines[stop])) stop++;
                parent.append(h("pre", { tabindex: "0" }, h("code", null, lines.slice(at + 1, stop).join("\n"))));
                at = stop + 1;
            } else if (heading) {
                inline(parent.appendChild(h("h" + heading[1].length)), heading[2], depth);
                at++;
            } else if (line.length < 200 && RULE.test(line)) {
                parent.append(h("hr"));
                at++;
            } else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
                let stop = at;
                while (stop < lines.length && /^ {0,3}>/.test(lines[stop])) stop++;
                const quoted = lines.slice(at, stop).map((l) => l.replace(/^ {0,3}> ?/, ""));
                blocks(parent.appendChild(h("blockquote")), quoted, depth + 1);
                at = stop;
            } else if (ENTRY.test(line) && depth < MAX_DEPTH) {
                at = listBlock(parent, lines, at, depth);
            } else if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("|") &&
                       lines[at + 1].length < 2000 && TABLE_LINE.test(lines[at + 1])) {
                at = tableBlock(parent, lines, at, depth);
            } else {
                let stop = at + 1;
                while (stop < lines.length && lines[stop].trim() && !startsBlock(lines[stop])) stop++;
                inline(parent.appendChild(h("p")), lines.slice(at, stop).join("\n"), depth);
                at = stop;
            }
        }
    }

    function listBlock(parent, lines, at, depth) {
        const first = ENTRY.exec(lines[at]);
        const indent = first[1].length;
        const ordered = /\d/.test(first[2]);
        const list = parent.appendChild(ordered ? h("ol", { start: String(parseInt(first[2], 10)) }) : h("ul"));
        while (at < lines.length) {
            const entry = ENTRY.exec(lines[at]);
            if (!entry || entry[1].length < indent || entry[1].length > indent + 1 || /\d/.test(entry[2]) !== ordered) break;
            const inner = [entry[3] || ""];
            for (at++; at < lines.length; at++) {
                const depthOfLine = lines[at].search(/\S/);
                if (depthOfLine < 0) {
                    const next = lines[at + 1] || "";
                    if (next.search(/\S/) <= indent + 1 && !(ENTRY.test(next) && next.search(/\S/) >= indent)) break;
                    inner.push("");
                } else if (depthOfLine > indent + 1) {
                    inner.push(lines[at].slice(indent + 2));
                } else if (startsBlock(lines[at]) || !inner[inner.length - 1].trim()) {
                    break;
                } else {
                    inner.push(lines[at].trim());
                }
            }
            blocks(list.appendChild(h("li")), inner, depth + 1);
        }
        return at;
    }

    function cells(line) {
        return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
    }

    function tableBlock(parent, lines, at, depth) {
        const table = h("table");
        parent.append(h("div", { class: "scroll" }, table));
        const row = (line, tag) => {
            const tr = table.appendChild(h("tr"));
            for (const cell of cells(line)) inline(tr.appendChild(h(tag)), cell, depth);
        };
        row(lines[at], "th");
        for (at += 2; at < lines.length && lines[at].trim() && lines[at].includes("|"); at++) row(lines[at], "td");
        return at;
    }

    /* The text with its marks as nodes. Where a mark comes next is remembered until it is passed, so that the work stays
     * in proportion to the text. */
    function inline(parent, text, depth) {
        const next = new Map();
        const find = (mark, from) => {
            if (!next.has(mark) || (next.get(mark) >= 0 && next.get(mark) < from)) next.set(mark, text.indexOf(mark, from));
            return next.get(mark);
        };
        const token = new RegExp(TOKEN.source, "g");
        let done = 0;
        const plain = (end) => {
            text.slice(done, end).split("\n").forEach((line, n) => {
                if (n) parent.append(h("br"));
                if (line) parent.append(line);
            });
        };
        const put = (start, end, node) => {
            plain(start);
            if (node) parent.append(node);
            done = token.lastIndex = end;
        };
        const nested = (tag, start, from, to, length) => {
            const element = h(tag);
            inline(element, text.slice(from, to), depth + 1);
            put(start, to + length, element);
        };
        for (let match; (match = token.exec(text));) {
            const mark = match[0];
            const start = match.index;
            const from = start + mark.length;
            if (mark[0] === "\\") {
                plain(start);
                done = start + 1;
            } else if (mark[0] === "`") {
                const end = find(mark, from);
                if (end >= 0) put(start, end + mark.length, h("code", null, text.slice(from, end).trim()));
            } else if (mark.startsWith("http")) {
                const run = ADDRESS.exec(text.slice(start, start + 2000))[0];
                const word = run.replace(/[.,;:!?)\]*_~]+$/, "");
                const url = linkUrl(word);
                if (url) put(start, start + word.length, h("a", { href: url, ...LINK }, word));
            } else if (mark.endsWith("[")) {
                linkOrImage(start, from, mark[0] === "!");
            } else if (depth < MAX_DEPTH && text[from] !== undefined && text[from].trim()) {
                const inWord = mark[0] === "_" && start > 0 && WORD.test(text[start - 1]);
                const end = inWord ? -1 : find(mark, from + 1);
                const after = end < 0 ? "" : text[end + mark.length] || "";
                if (end > from && text[end - 1].trim() && !(mark[0] === "_" && WORD.test(after)))
                    nested(mark === "~~" ? "del" : mark.length === 2 ? "strong" : "em", start, from, end, mark.length);
            }
        }
        plain(text.length);

        function linkOrImage(start, from, isImage) {
            const middle = find("](", from);
            let end = middle < 0 || middle - from > 1000 ? -1 : find(")", middle + 2);
            for (let open = text.indexOf("(", middle + 2); end >= 0 && open >= 0 && open < end && end - middle < 4000;) {
                open = text.indexOf("(", open + 1); /* an address may hold pairs of parentheses */
                end = text.indexOf(")", end + 1);
            }
            if (end < 0 || end - middle > 4000) return;
            const label = text.slice(from, middle);
            const target = text.slice(middle + 2, end).trim().replace(/\s+["'].*$/, "");
            const url = isImage ? webUrl(target) : linkUrl(target);
            if (isImage) {
                put(start, end + 1, url ? imageElement(url, label) : document.createTextNode(label));
                return;
            }
            const element = url ? h("a", { href: url, ...LINK }) : h("span");
            if (depth < MAX_DEPTH) inline(element, label, MAX_DEPTH);
            else element.append(label);
            put(start, end + 1, element);
        }
    }

    /* ---- state --------------------------------------------------------------------------------------------------- */

    function newUuid() {
        const bytes = crypto.getRandomValues(new Uint8Array(16));
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
        return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
    }

    /* The visitor's session, one for each tab; a page that forbids storage gets a new one at each load. */
    function storedSession() {
        let id = null;
        try {
            id = sessionStorage.getItem(SESSION_KEY);
            if (!/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id || "")) {
                id = newUuid();
                sessionStorage.setItem(SESSION_KEY, id);
            }
        } catch (e) {
            id = id || newUuid();
        }
        return id;
    }

    const SESSION = storedSession();
    const SCRIPT = document.currentScript ||
        document.querySelector('script[src*="/api/v1/embed/' + CSS.escape(CONFIG.bot) + '/widget.js"]');
    const TITLE = (SCRIPT && SCRIPT.getAttribute("data-title")) || "LangBot";

    const ui = {};
    const items = []; /* {id or null, role, content, chain, final, node, body, ...} in the order in which they are shown */
    let images = []; /* of the message being written: {data, size} */
    let opened = false;
    let socket = null;
    let greeted = false; /* the server said "connected" on this socket */
    let connectionId = "";
    let token = ""; /* session token of the human check */
    let checking = false;
    let refused = false; /* the server will not have us: no further tries by themselves */
    let tries = 0;
    let retryTimer = 0;
    let pingTimer = 0;
    let answerTimer = 0;
    let epoch = 0; /* rises with each reset: answers to older requests are of no interest */

    async function call(method, path, body) {
        const headers = body ? { "Content-Type": "application/json" } : {};
        if (token) headers.Authorization = "Bearer " + token;
        const answer = await fetch(BOT_API + path, {
            method, headers, body: body ? JSON.stringify(body) : undefined, credentials: "omit",
        });
        if (answer.status === 403) token = "";
        const data = await answer.json();
        if (!answer.ok || data.code !== 0) throw new Error(data.msg || String(answer.status));
        return data.data || {};
    }

    function setState(text) {
        ui.state.textContent = text;
        const ready = greeted && socket !== null;
        ui.reset.disabled = !ready;
        ui.send.disabled = !ready || (!ui.input.value.trim() && !images.length);
    }

    const isLow = () => ui.list.scrollHeight - ui.list.scrollTop - ui.list.clientHeight < 60;
    const scrollDown = () => { ui.list.scrollTop = ui.list.scrollHeight; };

    /* A line above the input, with buttons [text, action]; each notice replaces the one before it. */
    function notice(text, ...buttons) {
        const low = isLow();
        ui.notice.replaceChildren(h("span", null, text || ""));
        for (const [label, action] of buttons)
            ui.notice.append(h("button", { type: "button", click: () => { notice(""); action(); } }, label));
        ui.notice.hidden = !text;
        if (low) scrollDown();
    }

    /* ---- the list of messages ------------------------------------------------------------------------------------ */

    function chainOf(message) {
        const chain = Array.isArray(message.message_chain) ? message.message_chain : [];
        return chain.filter((part) => part && typeof part === "object");
    }

    function textOf(item) {
        const texts = item.chain.map((part) => {
            if (part.type === "Plain") return String(part.text || "");
            return part.type === "At" ? "@" + (part.display || part.target) : "";
        });
        const text = texts.join("");
        return text || (item.chain.some((part) => part.type !== "Source") ? "" : item.content);
    }

    function mediaNode(part) {
        if (part.type === "Image") {
            const src = mediaUrl(part, "image");
            return src ? imageElement(src) : h("em", null, "[" + T.image + "]");
        }
        if (part.type === "Voice") {
            const src = mediaUrl(part, "audio");
            return src ? h("audio", { controls: true, src, preload: "none" }) : null;
        }
        if (part.type === "File") {
            const name = String(part.name || T.file);
            const href = mediaUrl(part, "");
            return h("p", null, href ? h("a", { href, download: name, ...LINK }, name) : name);
        }
        return null;
    }

    function draw(item) {
        item.timer = 0;
        const began = performance.now();
        const low = isLow();
        item.body.replaceChildren();
        const text = textOf(item);
        if (item.role === "user") item.body.append(text);
        else blocks(item.body, text.replace(/\r\n?/g, "\n").split("\n"), 0);
        for (const part of item.chain) {
            const node = mediaNode(part);
            if (node) item.body.append(node);
        }
        item.body.hidden = !item.body.hasChildNodes();
        item.node.setAttribute("aria-busy", String(!item.final));
        if (item.tools) item.tools.hidden = !item.final || !text;
        if (low || item.local) scrollDown();
        item.pause = Math.max(40, 4 * (performance.now() - began)); /* a long answer is drawn less often */
    }

    function drawSoon(item) {
        if (item.final) {
            clearTimeout(item.timer);
            draw(item);
        } else if (!item.timer) {
            item.timer = setTimeout(draw, item.pause || 0, item);
        }
    }

    function addItem(item) {
        item.body = h("div", { class: "text" });
        item.node = h("div", { class: "item " + (item.role === "user" ? "user" : "bot") },
            h("span", { class: "spoken" }, item.role === "user" ? T.you : TITLE), item.body);
        if (item.role !== "user") item.node.append(item.tools = toolsOf(item));
        items.push(item);
        ui.list.insertBefore(item.node, ui.dots);
        ui.empty.hidden = true;
        draw(item);
        return item;
    }

    function removeItem(item) {
        clearTimeout(item.timer);
        item.node.remove();
        items.splice(items.indexOf(item), 1);
    }

    function toolsOf(item) {
        const copy = button("copy", T.copy, async () => {
            if (!await copyText(textOf(item))) return;
            copy.replaceChildren(icon("done"));
            copy.setAttribute("aria-label", T.copied);
            setTimeout(() => { copy.replaceChildren(icon("copy")); copy.setAttribute("aria-label", T.copy); }, 1500);
        });
        const rate = async (kind) => {
            const before = item.rating;
            const now = before === kind ? 0 : kind;
            show(now);
            try {
                await call("POST", "/feedback", { message_id: item.id, feedback_type: now || CANCEL });
            } catch (e) {
                show(before);
                notice(T.failed);
            }
        };
        const like = button("like", T.like, () => rate(LIKE), { "aria-pressed": "false" });
        const dislike = button("dislike", T.dislike, () => rate(DISLIKE), { "aria-pressed": "false" });
        const show = (kind) => {
            item.rating = kind;
            like.setAttribute("aria-pressed", String(kind === LIKE));
            dislike.setAttribute("aria-pressed", String(kind === DISLIKE));
        };
        item.rating = 0;
        return item.id === null ? h("div", { class: "tools" }, copy) : h("div", { class: "tools" }, copy, like, dislike);
    }

    async function copyText(text) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch (e) {
            const area = h("textarea", { style: "position:fixed;opacity:0" });
            area.value = text;
            document.body.append(area);
            area.select();
            const done = document.execCommand("copy");
            area.remove();
            return done;
        }
    }

    function waiting(on) {
        clearTimeout(answerTimer);
        ui.dots.hidden = !on;
        if (!on) return;
        answerTimer = setTimeout(waiting, ANSWER_MS, false);
        scrollDown();
    }

    /* Takes a message of the server: a new one, or a later state of one that is shown. */
    function take(message, live) {
        if (!message || typeof message !== "object" || !Number.isInteger(message.id)) return;
        const chain = chainOf(message);
        const fields = { content: String(message.content || ""), chain, final: message.is_final !== false };
        let item = items.find((other) => other.id === message.id);
        if (!item && message.role === "user") {
            const mine = !live || message.connection_id === connectionId;
            const text = textOf(fields) || fields.content;
            item = mine && items.find((other) => other.id === null && other.local && textOf(other) === text);
            if (item) {
                item.id = message.id;
                failed(item, false);
                return;
            }
        }
        if (item) {
            if (item.role === "user" || (item.final && !fields.final)) return;
            Object.assign(item, fields);
            drawSoon(item);
        } else {
            const role = message.role === "user" ? "user" : "assistant";
            if (role === "assistant" && live && fields.final && isRepeat(fields)) return;
            item = addItem({ id: message.id, role, ...fields });
        }
        if (live && item.role === "assistant" && item.final && !opened) ui.dot.hidden = false;
    }

    /* Whether the same answer is already there since the visitor's last message. */
    function isRepeat(fields) {
        const text = textOf(fields);
        for (let n = items.length - 1; n >= 0 && items[n].role !== "user"; n--)
            if (text && items[n].final && textOf(items[n]) === text) return true;
        return false;
    }

    function failed(item, on) {
        if (item.mark) item.mark.remove();
        item.mark = on ? h("div", { class: "mark", role: "status" }, T.notSent) : null;
        if (on) item.node.append(item.mark);
    }

    async function loadHistory() {
        const mine = epoch;
        let messages;
        try {
            messages = (await call("GET", "/messages/person?session_id=" + SESSION)).messages;
        } catch (e) {
            return; /* the chat works without it, and the next connection asks again */
        }
        if (mine !== epoch || !Array.isArray(messages)) return;
        for (const message of messages) take(message, false);
        const order = (item) => (item.id === null ? Infinity : item.id);
        const sorted = items.map((item, n) => ({ item, n })).sort((a, b) => order(a.item) - order(b.item) || a.n - b.n);
        items.splice(0, items.length, ...sorted.map((entry) => entry.item));
        for (const item of items) ui.list.insertBefore(item.node, ui.dots);
        for (const item of items) if (item.local && item.id === null && item.connection !== connectionId) failed(item, true);
        const last = items[items.length - 1];
        if (last && last.role === "assistant") waiting(false);
        scrollDown();
    }

    /* ---- the connection ------------------------------------------------------------------------------------------ */

    function connect() {
        clearTimeout(retryTimer);
        if (socket || checking) return;
        refused = false;
        if (CONFIG.siteKey && !token) {
            humanCheck();
            return;
        }
        setState(T.connecting);
        let opening;
        try {
            opening = new WebSocket(BOT_API.replace(/^http/, "ws") + "/ws/connect?session_type=person&session_id=" + SESSION);
        } catch (e) {
            lost();
            return;
        }
        socket = opening;
        greeted = false;
        opening.onopen = () => opening.send(JSON.stringify({ type: "authenticate", token }));
        opening.onmessage = (event) => { if (socket === opening) receive(event.data); };
        opening.onclose = () => {
            if (socket !== opening) return;
            socket = null;
            greeted = false;
            clearInterval(pingTimer);
            waiting(false);
            lost();
        };
    }

    function lost() {
        if (refused || !opened || tries >= RECONNECT_TRIES) {
            setState(T.offline);
            if (opened && !checking && ui.notice.hidden) notice(T.offline, [T.reconnect, again]);
            return;
        }
        tries++;
        setState(T.retrying);
        retryTimer = setTimeout(connect, RECONNECT_MS * tries);
    }

    function again() {
        tries = 0;
        connect();
    }

    function leave() {
        clearTimeout(retryTimer);
        clearInterval(pingTimer);
        const leaving = socket;
        socket = null;
        greeted = false;
        if (!leaving) return;
        if (leaving.readyState === WebSocket.OPEN) leaving.send('{"type":"disconnect"}');
        leaving.close();
    }

    function receive(text) {
        let frame;
        try {
            frame = JSON.parse(text);
        } catch (e) {
            return;
        }
        if (!frame || typeof frame !== "object" || (frame.session_type && frame.session_type !== "person")) return;
        if (frame.type === "connected") {
            greeted = true;
            connectionId = String(frame.connection_id || "");
            tries = 0;
            notice("");
            setState(T.online);
            clearInterval(pingTimer);
            pingTimer = setInterval(() => { if (socket && greeted) socket.send('{"type":"ping"}'); }, PING_MS);
            loadHistory();
        } else if (frame.type === "user_message") {
            take(frame.data, true);
        } else if (frame.type === "response") {
            waiting(false);
            take(frame.data, true);
        } else if (frame.type === "broadcast") {
            addItem({ id: null, role: "assistant", content: String(frame.message || ""), chain: [], final: true });
        } else if (frame.type === "error") {
            trouble(String(frame.message || ""));
        }
    }

    function trouble(message) {
        waiting(false);
        if (message === "Unauthorized" && CONFIG.siteKey) {
            token = "";
            leave();
            notice(T.verifyFailed, [T.retry, again]);
            setState(T.offline);
            return;
        }
        /* A refusal before the greeting will be the same next time, but for a server that is full. */
        refused = !greeted && message !== "Internal server error";
        notice(message || T.failed, ...(refused ? [[T.reconnect, again]] : []));
    }

    /* ---- the human check (Turnstile) ----------------------------------------------------------------------------- */

    function turnstile() {
        return new Promise((resolve, reject) => {
            if (window.turnstile) {
                resolve(window.turnstile);
                return;
            }
            document.head.append(h("script", {
                src: "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit", async: true, error: reject,
                load: () => (window.turnstile ? resolve(window.turnstile) : reject(new Error("turnstile"))),
            }));
        });
    }

    async function humanCheck() {
        checking = true;
        ui.check.hidden = false;
        const field = h("div");
        ui.check.replaceChildren(h("div", null, T.verify), field);
        setState(T.offline);
        let api = null;
        let widget;
        let ok = false;
        try {
            api = await turnstile();
            const answer = await new Promise((resolve, reject) => {
                widget = api.render(field, {
                    sitekey: CONFIG.siteKey, theme: "auto", callback: resolve, "error-callback": reject,
                });
            });
            const data = await call("POST", "/turnstile/verify", { token: answer });
            token = String(data.token || "");
            ok = token !== "";
        } catch (e) {
            /* the notice below says it */
        }
        if (api && widget !== undefined) api.remove(widget);
        checking = false;
        ui.check.hidden = true;
        ui.check.replaceChildren();
        if (ok) connect();
        else notice(T.verifyFailed, [T.retry, again]);
    }

    /* ---- what the visitor does ----------------------------------------------------------------------------------- */

    function send() {
        const text = ui.input.value.trim();
        if (images.some((image) => !image.data)) return; /* still being read */
        if ((!text && !images.length) || !greeted || !socket || socket.readyState !== WebSocket.OPEN) return;
        const chain = text ? [{ type: "Plain", text }] : [];
        for (const image of images) chain.push({ type: "Image", base64: image.data });
        socket.send(JSON.stringify({ type: "message", message: chain, stream: true }));
        addItem({ id: null, role: "user", content: text, chain, final: true, local: true, connection: connectionId });
        ui.input.value = "";
        images = [];
        showImages();
        grow();
        notice("");
        waiting(true);
    }

    async function reset() {
        try {
            await call("POST", "/reset/person?session_id=" + SESSION);
        } catch (e) {
            notice(T.failed);
            if (CONFIG.siteKey && !token) { /* the token has run out */
                leave();
                again();
            }
            return;
        }
        epoch++;
        waiting(false);
        for (const item of items.slice()) removeItem(item);
        ui.empty.hidden = false;
        notice(T.resetDone);
        ui.input.focus();
    }

    function addImages(files) {
        for (const file of files) {
            if (!IMAGE_TYPES.includes(file.type)) {
                notice(T.onlyImages);
                continue;
            }
            if (images.reduce((sum, image) => sum + image.size, file.size) > IMAGE_BYTES) {
                notice(T.tooLarge);
                continue;
            }
            const image = { data: "", size: file.size };
            images.push(image);
            const reader = new FileReader();
            reader.onload = () => { image.data = String(reader.result); showImages(); };
            reader.onerror = () => { images = images.filter((other) => other !== image); showImages(); notice(T.failed); };
            reader.readAsDataURL(file);
        }
    }

    function showImages() {
        const low = isLow();
        const without = (image) => {
            images = images.filter((other) => other !== image);
            showImages();
            ui.input.focus();
        };
        ui.images.replaceChildren(...images.filter((image) => image.data).map((image) => h("div", { class: "thumb" },
            h("img", { src: image.data, alt: T.image }), button("close", T.removeImage, () => without(image)))));
        ui.images.hidden = !images.length;
        if (low) scrollDown();
        setState(ui.state.textContent);
    }

    function grow() {
        ui.input.style.height = "38px";
        ui.input.style.height = Math.min(ui.input.scrollHeight + 2, 130) + "px";
        setState(ui.state.textContent);
    }

    function toggle(open) {
        opened = open;
        ui.panel.hidden = !open;
        ui.frame.classList.toggle("opened", open);
        ui.bubble.setAttribute("aria-expanded", String(open));
        ui.bubble.setAttribute("aria-label", open ? T.close : T.open);
        ui.bubble.replaceChildren(open ? icon("close") : bubbleFace(), ui.dot);
        if (open) {
            ui.dot.hidden = true;
            again();
            scrollDown();
            ui.input.focus();
        } else {
            ui.bubble.focus();
        }
    }

    function bubbleFace() {
        const drawn = Object.prototype.hasOwnProperty.call(ICONS, CONFIG.icon);
        return drawn ? icon(CONFIG.icon) : h("img", { src: API + "logo", alt: "" });
    }

    function onKey(event) {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
        event.preventDefault();
        send();
    }

    function takeFiles(event, transfer) {
        const files = Array.from((transfer && transfer.files) || []);
        if (!files.length) return;
        event.preventDefault();
        addImages(files);
    }

    function build() {
        const host = h("div", { id: ROOT_ID, lang: LOCALE.replace("_", "-") });
        const root = host.attachShadow({ mode: "open" });
        try {
            const sheet = new CSSStyleSheet(); /* allowed where the page's policy forbids inline styles */
            sheet.replaceSync(STYLE);
            root.adoptedStyleSheets = [sheet];
        } catch (e) {
            root.append(h("style", null, STYLE));
        }
        ui.dot = h("span", { class: "dot", hidden: true });
        ui.bubble = h("button", { type: "button", class: "bubble", "aria-haspopup": "dialog", "aria-expanded": "false",
            "aria-label": T.open, click: () => toggle(!opened) }, bubbleFace(), ui.dot);
        ui.state = h("div", { class: "state", role: "status" }, T.offline);
        const askReset = () => notice(T.resetAsk, [T.yes, reset], [T.no, () => ui.input.focus()]);
        ui.reset = button("reset", T.reset, askReset, { disabled: true });
        ui.empty = h("div", { class: "empty" }, T.empty);
        ui.dots = h("div", { class: "dots", role: "status", "aria-label": T.typing, hidden: true }, h("i"), h("i"), h("i"));
        ui.list = h("div", { class: "list", role: "log", "aria-label": T.messages, "aria-live": "polite", tabindex: "0" },
            ui.empty, ui.dots);
        ui.notice = h("div", { class: "notice", role: "alert", hidden: true });
        ui.check = h("div", { class: "check", hidden: true });
        ui.images = h("div", { class: "images", hidden: true });
        ui.input = h("textarea", { rows: "1", placeholder: T.input, "aria-label": T.input, keydown: onKey, input: grow,
            paste: (event) => takeFiles(event, event.clipboardData) });
        ui.send = button("send", T.send, send, { class: "send", disabled: true });
        const picker = h("input", { type: "file", accept: IMAGE_TYPES.join(","), multiple: true, hidden: true,
            "aria-label": T.attach, change: () => { addImages(Array.from(picker.files)); picker.value = ""; } });
        ui.panel = h("div", { class: "panel", role: "dialog", "aria-label": TITLE, hidden: true,
            dragover: (event) => event.preventDefault(), drop: (event) => takeFiles(event, event.dataTransfer) },
        h("div", { class: "head" }, h("img", { src: API + "logo", alt: "" }),
            h("div", { class: "names" }, h("div", { class: "title" }, TITLE), ui.state),
            ui.reset, button("close", T.close, () => toggle(false))),
        ui.list, ui.check, ui.notice, ui.images,
        h("div", { class: "write" }, picker, button("attach", T.attach, () => picker.click()), ui.input, ui.send));
        ui.frame = h("div", { class: "frame", keydown: (event) => {
            event.stopPropagation(); /* shortcuts of the page are not meant for what is typed here */
            if (event.key === "Escape" && opened && !event.isComposing) toggle(false);
        } }, ui.panel, ui.bubble);
        root.append(ui.frame);
        document.body.append(host);
        window.addEventListener("online", () => { if (opened && !socket && !refused) again(); });
        window.addEventListener("pagehide", leave);
        window.addEventListener("pageshow", (event) => { if (event.persisted && opened) again(); });
    }

    if (document.body) build();
    else document.addEventListener("DOMContentLoaded", build, { once: true });
})();
