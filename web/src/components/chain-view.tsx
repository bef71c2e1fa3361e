import { useTranslation } from 'react-i18next';
import type { ChainItem } from '@/lib/types';
import { AuthImage } from './auth-image';

function text(value: unknown): string {
  return value === undefined || value === null ? '' : String(value);
}

function source(item: ChainItem): string | null {
  const data = text(item.base64);
  if (data) return data.startsWith('data:') ? data : `data:image/png;base64,${data}`;
  const url = text(item.url);
  return /^(https?:\/\/|blob:)/.test(url) ? url : null;
}

/** One message as its parts. Source parts carry no content. */
export function ChainView({ chain }: { chain: ChainItem[] }) {
  const { t } = useTranslation();
  return (
    <div className="text-sm break-words whitespace-pre-wrap">
      {chain.map((item, index) => {
        switch (item.type) {
          case 'Source':
            return null;
          case 'Plain':
            return <span key={index}>{text(item.text)}</span>;
          case 'At':
            return <span key={index} className="text-accent-text">@{text(item.display) || text(item.target)} </span>;
          case 'AtAll':
            return <span key={index} className="text-accent-text">@{t('chat.everyone')} </span>;
          case 'Image': {
            const src = source(item);
            if (src) return <img key={index} src={src} alt={t('chat.image')} className="my-1 max-h-48 max-w-full rounded-md border" />;
            if (item.path) return <AuthImage key={index} path={`/files/image/${text(item.path)}`} alt={t('chat.image')} className="my-1 max-h-48 rounded-md border" />;
            return <span key={index} className="text-muted">[{t('chat.image')}]</span>;
          }
          case 'Voice': {
            const data = text(item.base64) || text(item.url);
            if (/^(data:audio|https?:)/.test(data)) return <audio key={index} controls src={data} className="my-1 max-w-full" />;
            return <span key={index} className="text-muted">[{t('chat.voice')}]</span>;
          }
          case 'File':
            return <span key={index} className="text-muted">[{t('chat.file')}{item.name ? `: ${text(item.name)}` : ''}]</span>;
          case 'Quote':
            return (
              <blockquote key={index} className="my-1 border-l-2 border-line-strong pl-2 text-muted">
                {Array.isArray(item.origin) ? <ChainView chain={item.origin as ChainItem[]} /> : text(item.text)}
              </blockquote>
            );
          default:
            return <span key={index} className="text-muted">[{item.type}]</span>;
        }
      })}
    </div>
  );
}
