import { useTranslation } from 'react-i18next';
import { Field, Input } from '@/ui/form';

export interface Basics {
  name: string;
  emoji: string;
  description: string;
}
export const DEFAULT_EMOJI = '⚙️';
const SUGGESTED = ['⚙️', '💬', '🤖', '🛎️', '📚', '🧭', '🛠️', '✨'];

export function BasicFields({ value, onChange, error, autoFocus, disabled }: {
  value: Basics;
  onChange: (value: Basics) => void;
  error?: string;
  autoFocus?: boolean;
  disabled?: boolean;
}) {
  const { t } = useTranslation();
  return (
    <div className="flex flex-col gap-4">
      <div className="flex gap-3">
        <Field label={t('pipelines.emoji')} className="w-16">
          {(control) => (
            <>
              <Input
                {...control}
                list="pipeline-emoji"
                className="px-0 text-center text-lg"
                maxLength={8}
                value={value.emoji}
                disabled={disabled}
                onChange={(e) => onChange({ ...value, emoji: e.target.value })}
              />
              <datalist id="pipeline-emoji">{SUGGESTED.map((emoji) => <option key={emoji} value={emoji} />)}</datalist>
            </>
          )}
        </Field>
        <Field label={t('common.name')} required error={error} className="min-w-0 flex-1">
          {(control) => <Input {...control} autoFocus={autoFocus} value={value.name} disabled={disabled} onChange={(e) => onChange({ ...value, name: e.target.value })} />}
        </Field>
      </div>
      <Field label={t('common.description')}>
        {(control) => <Input {...control} value={value.description} disabled={disabled} onChange={(e) => onChange({ ...value, description: e.target.value })} />}
      </Field>
    </div>
  );
}
