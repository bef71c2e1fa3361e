import { useTranslation } from 'react-i18next';
import { Plus, Trash2 } from 'lucide-react';
import { asPrompt } from '@/lib/form-values';
import { Button, IconButton } from '@/ui/button';
import { Select, Textarea, type FieldControl } from '@/ui/form';

export function PromptField({ value, onChange, disabled, control }: {
  value: unknown;
  onChange: (value: unknown) => void;
  disabled: boolean;
  control: FieldControl;
}) {
  const { t } = useTranslation();
  const rows = asPrompt(value);
  const set = (index: number, part: Partial<{ role: string; content: string }>) =>
    onChange(rows.map((row, i) => (i === index ? { ...row, ...part } : row)));
  return (
    <div className="flex flex-col gap-3">
      {rows.map((row, index) => (
        <div key={index} className="rounded-lg border p-3">
          <div className="mb-2 flex items-center justify-between gap-2">
            {index === 0 ? (
              <span className="text-[13px] font-medium text-muted">{t('form.role.system')}</span>
            ) : (
              <Select
                size="sm"
                className="w-36"
                aria-label={t('form.roleOf', { n: index + 1 })}
                value={row.role}
                disabled={disabled}
                onChange={(role) => set(index, { role })}
                options={['user', 'assistant'].map((role) => ({ value: role, label: t(`form.role.${role}`) }))}
              />
            )}
            {index > 0 && (
              <IconButton label={t('form.removeRow', { n: index + 1 })} size="iconSm" disabled={disabled} onClick={() => onChange(rows.filter((_, i) => i !== index))}>
                <Trash2 className="size-4 text-muted" aria-hidden />
              </IconButton>
            )}
          </div>
          <Textarea
            {...(index === 0 ? control : {})}
            aria-label={index === 0 ? undefined : t('form.row', { n: index + 1 })}
            rows={index === 0 ? 5 : 3}
            value={row.content}
            disabled={disabled}
            onChange={(event) => set(index, { content: event.target.value })}
          />
        </div>
      ))}
      <Button
        size="sm"
        className="self-start"
        disabled={disabled}
        onClick={() => onChange([...rows, { role: rows[rows.length - 1]?.role === 'user' ? 'assistant' : 'user', content: '' }])}
      >
        <Plus className="size-4" aria-hidden />
        {t('form.addMessage')}
      </Button>
    </div>
  );
}
